"""What to draw of a tick, which part each worker draws, and pixels in the layouts of CARLA's images.

One rendering serves all cameras with the same view.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors.actor import Sensor
from carla_bridge.simulator.protocol.messages import SensorType, header
from carla_bridge.simulator.scene import CameraView, ColourAndDepth, Moment, Picture, Renderer, identities

FARTHEST = 1000.0
"""Metres at which CARLA's depth code reaches its maximum."""
CAMERAS = {
    "sensor.camera.rgb": SensorType.RGB,
    "sensor.camera.instance_segmentation": SensorType.INSTANCE,
    "sensor.camera.semantic_segmentation": SensorType.SEMANTIC,
    "sensor.camera.depth": SensorType.DEPTH,
}


GRID = 8
"""Strips begin at multiples of this many columns."""
WORTH_CUTTING = 250_000
"""Pixels above which a single view is cut into strips: half of a small one takes almost as long as the whole, and keeps
the other processor from its other work."""


@dataclass(frozen=True)
class ImageRequest:
    """One image that a camera sensor is due to send."""

    stream: int
    kind: SensorType
    view: CameraView

    @property
    def pixel_bytes(self) -> int:
        return 4 * self.view.width * self.view.height

    def message_start(self, frame: int, elapsed: float) -> bytes:
        """The part of the image message before its pixels."""
        start = header(self.kind, frame, elapsed, self.view.pose)
        size = struct.pack("<IIf", self.view.width, self.view.height, self.view.fov)
        return struct.pack("<I", len(start) + len(size) + self.pixel_bytes) + start + size


@dataclass(frozen=True)
class ImageTask:
    """One image to draw, and where in the shared memory its pixels belong."""

    kind: SensorType
    view: CameraView
    offset: int

    @property
    def early(self) -> bool:
        """Whether it shows identities only, which are known before colours and depth."""
        return self.kind in (SensorType.INSTANCE, SensorType.SEMANTIC)


@dataclass(frozen=True)
class RenderJob:
    """All images to draw of one moment."""

    moment: Moment
    tasks: Sequence[ImageTask]
    size: int
    """Bytes of shared memory in use."""


def image_request(sensor: Sensor) -> ImageRequest:
    settings = sensor.settings
    size = int(settings["image_size_x"]), int(settings["image_size_y"])
    view = CameraView(sensor.pose, *size, float(settings["fov"]))
    return ImageRequest(sensor.stream, CAMERAS[sensor.blueprint], view)


def draw_tasks(renderer: Renderer, job: RenderJob, memory: memoryview, strip: int, strips: int) -> Iterator[None]:
    """Draw one worker's share of a job into the shared memory.

    Yields twice: when the identity images are complete, and when all are.
    """
    wanted: dict[CameraView, list[ImageTask]] = {}
    for task in job.tasks:
        wanted.setdefault(task.view, []).append(task)
    parts = shares(list(wanted), strip, strips)
    views = [view for view in wanted if len(parts[view])]
    pictures = renderer.draw(job.moment, [replace(view, columns=parts[view]) for view in views])
    for early in (True, False):
        for view, picture in zip(views, pictures, strict=True):
            for task in wanted[view]:
                if task.early is early:
                    words = np.frombuffer(memory, np.uint32, view.width * view.height, task.offset)
                    part = words.reshape(view.height, view.width)[:, parts[view].start : parts[view].stop]
                    part[...] = _pixels(task.kind, picture)
        yield


def shares(views: Sequence[CameraView], strip: int, strips: int) -> dict[CameraView, range]:
    """The columns of each view that one worker draws.

    Views of one size are dealt out whole as long as every worker gets one; the rest are cut into strips. A strip costs
    more than its share of the whole, but an uncut view that is left over would keep one worker waiting.
    """
    if len(views) == 1 and views[0].width * views[0].height < WORTH_CUTTING:
        return {views[0]: range(views[0].width if strip == 0 else 0)}
    alike: dict[tuple[int, int], list[CameraView]] = {}
    for view in views:
        alike.setdefault((view.width, view.height), []).append(view)
    found = {}
    for (width, _), group in alike.items():
        dealt = len(group) - len(group) % strips
        for number, view in enumerate(group):
            own = range(width) if number % strips == strip else range(0)
            found[view] = own if number < dealt else columns(width, strip, strips)
    return found


def columns(width: int, strip: int, strips: int) -> range:
    """The columns of one of `strips` strips of about the same width; small pictures may leave some strips empty."""
    ends = [min(-(-width * number // (strips * GRID)) * GRID, width) for number in (strip, strip + 1)]
    return range(*ends)


def _pixels(kind: SensorType, picture: Picture) -> NDArray[np.uint32]:
    """Little-endian words A R G B, which are B, G, R, A in memory."""
    if kind is SensorType.RGB:
        return np.ascontiguousarray(picture.bgra).view(np.uint32)[..., 0]
    if kind is SensorType.INSTANCE:
        return picture.identity
    if kind is SensorType.SEMANTIC:
        return picture.identity & np.uint32(0xFFFF0000)
    share = np.clip(picture.depth / np.float32(FARTHEST), 0.0, 1.0).astype(np.float64)
    code = np.rint(share * (256**3 - 1)).astype(np.uint32)
    words = ((code & 0xFF) << 16) | (code & 0xFF00) | (code >> 16)
    opaque: NDArray[np.uint32] = np.bitwise_or(words, np.uint32(0xFF000000), dtype=np.uint32)
    return opaque


class BlankRenderer:
    """A renderer that draws black sky everywhere, for worlds whose pictures do not matter."""

    def draw(self, moment: Moment, views: Sequence[CameraView]) -> list[Picture]:
        shapes = [(view.height, len(view.shown)) for view in views]
        return [
            Picture(
                identities(np.zeros(shape, np.uint8), np.zeros(shape, np.uint16)),
                partial(ColourAndDepth, np.zeros((*shape, 4), np.uint8), np.full(shape, FARTHEST, np.float32)),
            )
            for shape in shapes
        ]

    def close(self) -> None:
        """Nothing to release."""
