"""The detector's loss: a box, a confidence and a classification term, each returned by name.

Squared errors carry a factor of one half and the terms are means over the images, so that gradients, and with
them learning rates, are those of the original implementation.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional
from torchvision.ops import box_iou

from models.yolo_decode import Targets, decode_boxes, encode_boxes, split_head


class YoloLoss(BaseModel):
    """Weights of the terms, as published."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    box_weight: float = Field(1.0, ge=0)
    """The weight of the boxes' places and sizes."""
    object_weight: float = Field(5.0, ge=0)
    """The weight of the confidence at anchor places with an object."""
    background_weight: float = Field(1.0, ge=0)
    """The weight of the confidence at anchor places without one."""
    class_weight: float = Field(1.0, ge=0)
    """The weight of the classes."""
    ignore_overlap: float = Field(0.6, ge=0, le=1)
    """An anchor place whose box overlaps an object by more than this without being responsible for one is neither
    rewarded nor punished."""

    def __call__(self, head: Tensor, boxes: Tensor, anchors: Tensor) -> dict[str, Tensor]:
        """Terms for head maps (N, A * (5 + C), rows, columns) and boxes (N, max_boxes, 5), see `encode_boxes`."""
        images, _, rows, columns = head.shape
        parts = split_head(head, len(anchors))
        targets = encode_boxes(boxes.to(head.dtype), anchors, (rows, columns))
        with torch.no_grad():
            predicted = decode_boxes(parts, anchors)
            best = best_overlap(predicted, boxes.to(head.dtype))
            truth = elementwise_iou(predicted[targets.place], targets.box)

        at, kept = targets.place, targets.kept.to(head.dtype)
        importance = kept[:, None] * (2.0 - targets.box[:, 2:3] * targets.box[:, 3:4])
        offset_error = (parts.offsets[at].sigmoid() - targets.offset).square()
        scale_error = (parts.scales[at] - targets.scale).square()
        box = 0.5 * (importance * (offset_error + scale_error)).sum()
        confidence = self._confidence(parts.objectness.sigmoid(), targets, best, truth)
        classification = kept * functional.cross_entropy(parts.classes[at], targets.label, reduction="none")
        return {
            "box": self.box_weight * box / images,
            "confidence": confidence / images,
            "classification": self.class_weight * classification.sum() / images,
        }

    def _confidence(self, objectness: Tensor, targets: Targets, best: Tensor, truth: Tensor) -> Tensor:
        background = torch.full_like(best, self.background_weight).masked_fill_(best > self.ignore_overlap, 0.0)
        weight = _put(background, targets, torch.full_like(truth, self.object_weight))
        wanted = _put(torch.zeros_like(best), targets, truth)
        return 0.5 * (weight * (objectness - wanted).square()).sum()


def _put(values: Tensor, targets: Targets, at_objects: Tensor) -> Tensor:
    """The map with other values where objects are; rows that are not kept go to one more place behind its end."""
    _, anchors, rows, columns = values.shape
    place = ((targets.image * anchors + targets.anchor) * rows + targets.row) * columns + targets.column
    flat = torch.cat([values.reshape(-1), values.new_zeros(1)])
    flat[torch.where(targets.kept, place, values.numel())] = at_objects
    return flat[:-1].view_as(values)


def best_overlap(predicted: Tensor, boxes: Tensor) -> Tensor:
    """The largest IoU of every predicted box (N, A, rows, columns, 4) with an object of its image, 0 without any."""
    if not boxes.shape[1]:
        return predicted.new_zeros(predicted.shape[:-1])
    overlap: Tensor = box_iou(predicted.flatten(1, 3), boxes[..., 1:], fmt="cxcywh")
    return overlap.masked_fill(boxes[:, None, :, 0] < 0, 0.0).amax(dim=-1).view(predicted.shape[:-1])


def elementwise_iou(first: Tensor, second: Tensor) -> Tensor:
    """IoU of the n-th box of one set with the n-th of the other, (n, 4) as cx, cy, w, h."""
    low = torch.maximum(first[:, :2] - first[:, 2:] / 2, second[:, :2] - second[:, 2:] / 2)
    high = torch.minimum(first[:, :2] + first[:, 2:] / 2, second[:, :2] + second[:, 2:] / 2)
    intersection = (high - low).clamp(min=0).prod(dim=1)
    return intersection / (first[:, 2:].prod(dim=1) + second[:, 2:].prod(dim=1) - intersection)
