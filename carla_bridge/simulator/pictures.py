"""From the renderer's pictures to CARLA's image messages; one rendering serves every camera at the same place."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors import Sensor
from carla_bridge.simulator.messages import SensorType, header
from carla_bridge.simulator.scene import CameraView, Moment, Picture, Renderer

FARTHEST = 1000.0
"""Metres at which CARLA's depth code is full."""
KINDS = {
    "sensor.camera.rgb": SensorType.RGB,
    "sensor.camera.instance_segmentation": SensorType.INSTANCE,
    "sensor.camera.semantic_segmentation": SensorType.SEMANTIC,
    "sensor.camera.depth": SensorType.DEPTH,
}


@dataclass(frozen=True)
class Shot:
    """One image to take and send."""

    stream: int
    kind: SensorType
    view: CameraView


def shot_of(sensor: Sensor) -> Shot:
    settings = sensor.settings
    size = int(settings["image_size_x"]), int(settings["image_size_y"])
    view = CameraView(sensor.pose, *size, float(settings["fov"]))
    return Shot(sensor.stream, KINDS[sensor.blueprint], view)


def take(
    renderer: Renderer, moment: Moment, shots: Sequence[Shot], frame: int, elapsed: float
) -> list[tuple[int, bytes]]:
    """(stream id, message) of every shot."""
    views = list(dict.fromkeys(shot.view for shot in shots))
    pictures = dict(zip(views, renderer.draw(moment, views), strict=True))
    return [(shot.stream, _message(shot, pictures[shot.view], frame, elapsed)) for shot in shots]


def _message(shot: Shot, picture: Picture, frame: int, elapsed: float) -> bytes:
    pixels = _pixels(shot.kind, picture)
    start = header(shot.kind, frame, elapsed, shot.view.pose)
    size = struct.pack("<IIf", shot.view.width, shot.view.height, shot.view.fov)
    length = struct.pack("<I", len(start) + len(size) + pixels.nbytes)
    return b"".join((length, start, size, pixels.data))


def _pixels(kind: SensorType, picture: Picture) -> NDArray[np.uint8] | NDArray[np.uint32]:
    """B, G, R, A in memory, as little-endian words A R G B."""
    if kind is SensorType.RGB:
        return np.ascontiguousarray(picture.bgra, dtype=np.uint8)
    if kind is SensorType.DEPTH:
        share = np.clip(picture.depth / np.float32(FARTHEST), 0.0, 1.0).astype(np.float64)
        code = np.rint(share * (256**3 - 1)).astype(np.uint32)
        words = ((code & 0xFF) << 16) | (code & 0xFF00) | (code >> 16)
    else:
        words = picture.tag.astype(np.uint32) << 16
        if kind is SensorType.INSTANCE:
            words |= picture.object_id.byteswap()
    opaque: NDArray[np.uint32] = np.bitwise_or(words, np.uint32(0xFF000000), dtype=np.uint32)
    return opaque


class NoPicture:
    """A renderer that draws nothing: black sky everywhere. For worlds that nobody looks at."""

    def draw(self, moment: Moment, views: Sequence[CameraView]) -> list[Picture]:
        return [
            Picture(
                np.zeros((view.height, view.width, 4), np.uint8),
                np.zeros((view.height, view.width), np.uint8),
                np.zeros((view.height, view.width), np.uint16),
                np.full((view.height, view.width), FARTHEST, np.float32),
            )
            for view in views
        ]

    def close(self) -> None:
        """Nothing to release."""
