"""The images of a render job: identities come first, then colours and depth; and what happens to errors."""

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from carla_bridge.simulator.pictures.render_jobs import BlankRenderer, ImageRequest, ImageTask, RenderJob, draw_tasks
from carla_bridge.simulator.pictures.render_pool import RenderPool
from carla_bridge.simulator.protocol.messages import SensorType
from carla_bridge.simulator.scene import CameraView, ColourAndDepth, Moment, Picture, Pose, identities

VIEW = CameraView(Pose(0, 0, 2), 16, 8, 90.0)
SIZE = 4 * 16 * 8
START = 64
"""Bytes of an image message before its pixels."""


class CountingRenderer:
    """A renderer that counts how often it finished a picture."""

    def __init__(self) -> None:
        self.finished = 0

    def draw(self, moment: Moment, views: Sequence[CameraView]) -> list[Picture]:
        shape = (8, 16)
        who = identities(np.full(shape, 14, np.uint8), np.full(shape, 300, np.uint16))
        return [Picture(who, partial(self._finish, shape)) for _ in views]

    def _finish(self, shape: tuple[int, int]) -> ColourAndDepth:
        self.finished += 1
        return ColourAndDepth(np.full((*shape, 4), 9, np.uint8), np.full(shape, 5, np.float32))

    def close(self) -> None:
        """Nothing to release."""


class FailingRenderer(BlankRenderer):
    """A renderer that fails as soon as it is asked, or when colours are wanted."""

    def draw(self, moment: Moment, views: Sequence[CameraView]) -> list[Picture]:
        if moment.traffic_lights:
            raise ValueError("too\nbright")
        return [Picture(picture.identity, self._fail) for picture in super().draw(moment, views)]

    def _fail(self) -> ColourAndDepth:
        raise ValueError("out of paint")


def note(published: list[int], stream: int, message: memoryview) -> None:
    assert len(message) == START + SIZE
    published.append(stream)


def tasks(*kinds: SensorType) -> list[ImageTask]:
    return [ImageTask(kind, VIEW, number * SIZE) for number, kind in enumerate(kinds)]


def test_identities_are_drawn_before_colours_are_computed():
    memory, renderer = bytearray(3 * SIZE), CountingRenderer()
    job = RenderJob(Moment(), tasks(SensorType.RGB, SensorType.INSTANCE, SensorType.DEPTH), len(memory))
    steps = draw_tasks(renderer, job, memoryview(memory), 0, 2)
    next(steps)
    assert memory[SIZE : 2 * SIZE] == bytes([300 >> 8, 300 & 255, 14, 255]) * (SIZE // 4)
    assert renderer.finished == 0
    assert not any(memory[:SIZE])
    next(steps)
    assert renderer.finished == 1
    assert memory[:SIZE] == bytes([9]) * SIZE
    assert any(memory[2 * SIZE :])


def test_colours_that_are_not_requested_are_not_computed():
    memory, renderer = bytearray(2 * SIZE), CountingRenderer()
    job = RenderJob(Moment(), tasks(SensorType.INSTANCE, SensorType.SEMANTIC), len(memory))
    assert len(list(draw_tasks(renderer, job, memoryview(memory), 0, 2))) == 2
    assert renderer.finished == 0
    assert memory[SIZE:] == bytes([0, 0, 14, 255]) * (SIZE // 4)


def test_a_failure_is_reported_and_the_next_job_is_drawn():
    async def take() -> list[tuple[str, list[int]]]:
        pool = RenderPool("tests.carla_bridge.simulator.pictures.test_render_jobs:FailingRenderer")
        await pool.start()
        pool.make_renderers()
        listening = asyncio.create_task(pool.run())
        requests = [ImageRequest(1, SensorType.RGB, VIEW), ImageRequest(2, SensorType.INSTANCE, VIEW)]
        results = []
        for moment, wanted in (
            (Moment(traffic_lights={1: 1}), requests),
            (Moment(), requests),
            (Moment(), requests[1:]),
        ):
            published: list[int] = []
            try:
                pending = pool.submit(moment, wanted, 7, 0.5)
                async with asyncio.timeout(60):
                    await pool.deliver(pending, partial(note, published))
                results.append(("", published))
            except RuntimeError as error:
                results.append((str(error), published))
        listening.cancel()
        pool.close()
        return results

    assert asyncio.run(take()) == [("too bright", []), ("out of paint", [2]), ("", [2])]


@pytest.mark.parametrize("kind", [SensorType.RGB, SensorType.DEPTH])
def test_a_message_begins_with_its_length(kind):
    start = ImageRequest(1, kind, VIEW).message_start(3, 0.1)
    assert len(start) == START
    assert int.from_bytes(start[:4], "little") == START - 4 + SIZE
