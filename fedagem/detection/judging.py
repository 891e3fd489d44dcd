"""What a detector got right and wrong in one frame, at the thresholds at which it reports boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import box_convert

from fedagem.detection.matching import Floats, Found, Objects, match
from fedagem.detection.samples import LabelledFrame, corners
from models.detections import Detections


@dataclass(frozen=True)
class Boxes:
    """Boxes (n, 4) as x1, y1, x2, y2 in pixels of the frame, and their classes."""

    boxes: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, chosen: Tensor) -> Boxes:
        return Boxes(self.boxes[chosen], self.labels[chosen])


@dataclass(frozen=True)
class JudgedFrame:
    """Detections that hit an object, objects that were missed, and detections of nothing."""

    hits: Boxes
    missed: Boxes
    alarms: Boxes

    @property
    def errors(self) -> int:
        return len(self.missed) + len(self.alarms)


def judge(frame: LabelledFrame, found: Detections, min_size: float) -> JudgedFrame:
    """Compare a frame's detections, in its pixels, with its objects; what is smaller than `min_size` does not count."""
    truth = Boxes(corners(frame), torch.from_numpy(np.asarray(frame.labels, dtype=np.int64)))
    order = torch.from_numpy(np.lexsort((-found.scores.numpy(), found.labels.numpy())))
    seen = Boxes(found.boxes[order], found.labels[order])
    small = _shorter_side(truth.boxes) < min_size
    matching = match(
        Found(seen.labels.numpy(), _sized(seen.boxes), found.scores[order].double().numpy()),
        Objects(truth.labels.numpy(), _sized(truth.boxes), crowd=small.numpy(), ignored=small.numpy()),
    )
    hit, ignored, taken = (torch.from_numpy(part[0]) for part in (matching.hit, matching.ignored, matching.taken))
    large = _shorter_side(seen.boxes) >= min_size
    return JudgedFrame(hits=seen[hit], missed=truth[~taken & ~small], alarms=seen[~hit & ~ignored & large])


def _sized(boxes: Tensor) -> Floats:
    sized: Floats = box_convert(boxes.double(), "xyxy", "xywh").numpy()
    return sized


def _shorter_side(boxes: Tensor) -> Tensor:
    return (boxes[:, 2:] - boxes[:, :2]).amin(dim=1)
