"""Mean average precision of detections on annotated frames, by torchmetrics with a COCO back end.

torchmetrics takes seconds to import and most processes of a federation never score anything: who does, pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torchvision.ops import box_convert, box_iou

from models.letterbox import Letterbox
from models.yolo_decode import Detections

SIZES = ("small", "medium", "large")
"""COCO's classes of object size by area in pixels: below 32 x 32, below 96 x 96, above."""
MAX_DETECTIONS = 100


@dataclass(frozen=True)
class Precision:
    """Average precision at IoU 0.5 and averaged over 0.5 to 0.95; None if there was nothing to find."""

    map_50: float | None
    map: float | None


@dataclass(frozen=True)
class ClassPrecision(Precision):
    objects: int


@dataclass(frozen=True)
class DetectionScores(Precision):
    """The means are over the classes that occur; classes and sizes that do not are None and never averaged."""

    per_class: dict[str, ClassPrecision]
    per_size: dict[str, Precision]
    frames: int
    objects: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class DetectionEvaluator:
    """Collects detections and truths batch by batch, in pixels of the frames, and scores them once.

    With a minimum size, objects of which a side is shorter than `min_size` pixels are neither wanted nor
    punished: a detection of one counts as nothing, and so does a detection that small which hits no object.
    """

    def __init__(self, classes: Sequence[str], min_size: float = 0.0) -> None:
        from torchmetrics.detection import MeanAveragePrecision

        self.classes = tuple(classes)
        self.min_size = min_size
        self._frames = 0
        self._objects = torch.zeros(len(self.classes), dtype=torch.long)
        self._metric = MeanAveragePrecision(
            iou_type="bbox",
            max_detection_thresholds=[1, 10, MAX_DETECTIONS],
            extended_summary=True,
            backend="faster_coco_eval",
        )
        self._metric.warn_on_many_detections = False

    def add(self, detections: Detections, boxes: Tensor, letterbox: Letterbox) -> None:
        """A batch's detections and its targets (N, max_boxes, 5), both relative to the network's input."""
        images = len(boxes)
        image, slot = torch.nonzero(boxes[..., 0] >= 0, as_tuple=True)
        label = boxes[image, slot, 0].long()
        truth = letterbox.to_frame(box_convert(boxes[image, slot, 1:], "cxcywh", "xyxy"))
        found = letterbox.clip(letterbox.to_frame(detections.boxes))
        small = shorter_side(truth) < self.min_size
        kept = self._worth_counting(found, detections, truth[~small], (image * len(self.classes) + label)[~small])

        self._frames += images
        self._objects += torch.bincount(label[~small], minlength=len(self.classes))
        per_image = torch.bincount(detections.image[kept], minlength=images).tolist()
        predictions = zip(
            found[kept].split(per_image),
            detections.scores[kept].split(per_image),
            detections.labels[kept].split(per_image),
            strict=True,
        )
        per_image = torch.bincount(image, minlength=images).tolist()
        targets = zip(truth.split(per_image), label.split(per_image), small.long().split(per_image), strict=True)
        self._metric.update(
            [{"boxes": b, "scores": s, "labels": c} for b, s, c in predictions],
            [{"boxes": b, "labels": c, "iscrowd": ignored} for b, c, ignored in targets],
        )

    def _worth_counting(self, found: Tensor, detections: Detections, truth: Tensor, group: Tensor) -> Tensor:
        """All detections but those under the minimum size that hit no object of their image and class."""
        kept = torch.ones(len(found), dtype=torch.bool)
        small = torch.nonzero(shorter_side(found) < self.min_size).squeeze(1)
        if len(small):
            same = (detections.image * len(self.classes) + detections.labels)[small, None] == group[None]
            kept[small] = ((box_iou(found[small], truth) >= 0.5) & same).any(dim=1)
        return kept

    def scores(self) -> DetectionScores:
        """Precision over everything added so far."""
        frames, objects = self._frames, int(self._objects.sum())
        precision = torch.full((10, 101, len(self.classes), 1 + len(SIZES)), -1.0)
        if objects:
            summary = self._metric.compute()
            present = torch.atleast_1d(summary["classes"]).long()
            precision[:, :, present] = summary["precision"][..., -1].float()
        everywhere = precision[..., 0]
        per_class = {
            name: ClassPrecision(_mean(everywhere[0, :, k]), _mean(everywhere[..., k]), int(self._objects[k]))
            for k, name in enumerate(self.classes)
        }
        per_size = {
            name: Precision(_mean(precision[0, ..., 1 + n]), _mean(precision[..., 1 + n]))
            for n, name in enumerate(SIZES)
        }
        return DetectionScores(
            _mean(everywhere[0]),
            _mean(everywhere),
            per_class=per_class,
            per_size=per_size,
            frames=frames,
            objects=objects,
        )


def shorter_side(boxes: Tensor) -> Tensor:
    """Of boxes (n, 4) as x1, y1, x2, y2."""
    return (boxes[:, 2:] - boxes[:, :2]).amin(dim=1)


def _mean(precision: Tensor) -> float | None:
    """COCO marks what does not exist with -1."""
    valid = precision[precision > -1]
    return float(valid.mean()) if len(valid) else None
