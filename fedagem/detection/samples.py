"""Turns annotated frames into the fixed-shape batches that training, replay and evaluation share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.ops import box_convert

from models.letterbox import Letterbox
from models.yolo_decode import PADDING_CLASS


class LabelledFrame(Protocol):
    """What the bridge's frames look like, so that this package need not import the bridge."""

    @property
    def image(self) -> NDArray[np.uint8]:
        """(height, width, 3), RGB."""

    @property
    def boxes(self) -> NDArray[np.float32]:
        """(n, 4): x, y, width, height in pixels."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """(n,): index of the class."""


def frame_size(frame: LabelledFrame) -> tuple[int, int]:
    """Width and height in pixels."""
    return frame.image.shape[1], frame.image.shape[0]


def corners(frame: LabelledFrame) -> Tensor:
    """The frame's boxes (n, 4) as x1, y1, x2, y2 in its pixels."""
    boxes = torch.from_numpy(np.asarray(frame.boxes, dtype=np.float32)).view(-1, 4)
    return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)


def make_batch(frames: Sequence[LabelledFrame], input_size: tuple[int, int], max_boxes: int) -> dict[str, Tensor]:
    """`x` (N, 3, H, W) as bytes and `boxes` (N, max_boxes, 5): class, cx, cy, w, h relative to the input.

    Frames may differ in size. A box without area is refused: the recorder should never have written it. Of a
    frame with more than `max_boxes` objects the largest are kept.
    """
    images = torch.empty((len(frames), 3, input_size[1], input_size[0]), dtype=torch.uint8)
    boxes = torch.zeros((len(frames), max_boxes, 5))
    boxes[..., 0] = PADDING_CLASS
    for index, frame in enumerate(frames):
        letterbox = Letterbox(frame_size(frame), input_size)
        images[index] = letterbox.images(torch.from_numpy(frame.image).permute(2, 0, 1)[None])[0]
        rows = _target_rows(frame, letterbox)[:max_boxes]
        boxes[index, : len(rows)] = rows
    return {"x": images, "boxes": boxes}


def _target_rows(frame: LabelledFrame, letterbox: Letterbox) -> Tensor:
    """The frame's objects as rows of `boxes`, largest first."""
    boxes = corners(frame)
    sides = boxes[:, 2:] - boxes[:, :2]
    if not bool((sides > 0).all()):
        raise ValueError(f"a box without area cannot be learned: x, y, width, height = {frame.boxes.tolist()}")
    labels = torch.from_numpy(np.asarray(frame.labels, dtype=np.float32)).view(-1, 1)
    rows = torch.cat([labels, box_convert(letterbox.to_input(boxes), "xyxy", "cxcywh")], dim=1)
    return rows[sides.prod(dim=1).argsort(descending=True, stable=True)]
