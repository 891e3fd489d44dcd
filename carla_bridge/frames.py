"""Annotated frames, and the interface of their sources.

Nothing here knows CARLA, disks or sockets, so that recorded snippets and live streams yield the same objects.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Box:
    """One visible object, in pixels from the top left corner of the image."""

    label: int
    """Index into the source's `classes`."""
    x: float
    y: float
    width: float
    height: float
    truncated: bool = False
    """Whether the object continues beyond the border of the image."""
    pixels: int = 0
    """Visible pixels of its mask; 0 if the mask is not known."""
    object_id: int = 0
    """Id in the instance mask; 0 if it is not known."""


@dataclass(frozen=True)
class Annotations:
    """All boxes of one frame as arrays, row i of each describing object i."""

    boxes: NDArray[np.float32]
    """(n, 4): x, y, width, height in pixels."""
    labels: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    pixels: NDArray[np.int64]
    object_ids: NDArray[np.int64]

    @classmethod
    def of(cls, boxes: Sequence[Box]) -> "Annotations":
        rows = [(box.x, box.y, box.width, box.height) for box in boxes]
        return cls(
            boxes=np.array(rows, dtype=np.float32).reshape(-1, 4),
            labels=np.array([box.label for box in boxes], dtype=np.int64),
            truncated=np.array([box.truncated for box in boxes], dtype=np.bool_),
            pixels=np.array([box.pixels for box in boxes], dtype=np.int64),
            object_ids=np.array([box.object_id for box in boxes], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.boxes)

    def __iter__(self) -> Iterator[Box]:
        columns = (self.labels, self.boxes, self.truncated, self.pixels, self.object_ids)
        for label, (x, y, width, height), truncated, pixels, object_id in zip(*columns, strict=True):
            yield Box(
                int(label),
                float(x),
                float(y),
                float(width),
                float(height),
                bool(truncated),
                int(pixels),
                int(object_id),
            )


def no_boxes() -> Annotations:
    return Annotations.of(())


@dataclass(frozen=True)
class Frame:
    """One image of one camera at one moment of simulation time, with the objects visible in it."""

    image: NDArray[np.uint8]
    """(height, width, 3), RGB."""
    frame: int
    """Number of the frame in its recording or stream."""
    timestamp: float
    """Simulation seconds on its source's timeline."""
    annotations: Annotations = field(default_factory=no_boxes)
    vehicle: str = ""
    domain: str = ""
    """Where the vehicle was driving (city, highway, Town04, ...); an evaluation can be split by it."""

    @property
    def boxes(self) -> NDArray[np.float32]:
        return self.annotations.boxes

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.annotations.labels


class FrameSource(Protocol):
    """Frames of one vehicle by simulation time, recorded or live."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels, in label order."""

    def window(self, start: float, end: float) -> Iterator[Frame]:
        """The frames with start <= timestamp < end, in order; asking again gives the same frames."""

    def close(self) -> None:
        """Release files and connections."""
