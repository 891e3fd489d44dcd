"""Draws frames with their boxes, contact sheets and films."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.errors import BridgeError
from carla_bridge.frames import Frame

COLOURS = (
    (86, 180, 233),
    (0, 158, 115),
    (230, 159, 0),
    (240, 228, 66),
    (213, 94, 0),
    (204, 121, 167),
    (0, 114, 178),
    (255, 255, 255),
)
"""RGB; colour-blind people can distinguish them too."""
FONT = cv2.FONT_HERSHEY_SIMPLEX

Pixels = NDArray[np.uint8]


def draw_boxes(frame: Frame, classes: Sequence[str]) -> Pixels:
    """A copy of the image with its boxes, their classes, the time and the domain."""
    image: Any = frame.image.copy()
    for box in frame.annotations:
        colour = COLOURS[box.label % len(COLOURS)]
        left, top = round(box.x), round(box.y)
        corner = (left + round(box.width) - 1, top + round(box.height) - 1)
        cv2.rectangle(image, (left, top), corner, colour, 1)
        if box.height >= 12:
            cv2.putText(image, classes[box.label], (left, max(top - 3, 8)), FONT, 0.3, colour, 1, cv2.LINE_AA)
    caption = f"{frame.vehicle} {frame.domain} {frame.timestamp:g} s"
    for colour, width in (((0, 0, 0), 3), ((255, 255, 255), 1)):
        cv2.putText(image, caption, (6, image.shape[0] - 8), FONT, 0.4, colour, width, cv2.LINE_AA)
    drawn: Pixels = image
    return drawn


def contact_sheet(images: Sequence[Pixels], columns: int) -> Pixels:
    """All images in rows; the rest of the last row is dark."""
    if not images:
        raise BridgeError("there is no frame to show; choose a recording with frames, or drive longer with --seconds")
    height, width = images[0].shape[:2]
    rows = -(-len(images) // columns)
    sheet = np.full((rows * height, columns * width, 3), 24, np.uint8)
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        part = image if image.shape[:2] == (height, width) else cv2.resize(image, (width, height))
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = part
    return sheet


def write_png(path: Path, image: Pixels) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not cv2.imwrite(str(path), cv2.cvtColor(image, cv2.COLOR_RGB2BGR)):
        raise BridgeError(f"the picture {path} cannot be written")


def write_film(path: Path, images: Iterable[Pixels], frames_per_second: float) -> None:
    """An .mp4 of all images, in the size of the first."""
    writer: Any = None
    size = (0, 0)
    try:
        for image in images:
            if writer is None:
                size = (image.shape[1], image.shape[0])
                code = cv2.VideoWriter.fourcc(*"mp4v")
                writer = cv2.VideoWriter(str(path), code, frames_per_second, size)
                if not writer.isOpened():
                    raise BridgeError(f"the film {path} cannot be written")
            part = image if (image.shape[1], image.shape[0]) == size else cv2.resize(image, size)
            writer.write(cv2.cvtColor(part, cv2.COLOR_RGB2BGR))
    finally:
        if writer is not None:
            writer.release()
