"""Detection as an objective: what every method of this project needs to know about TinyYOLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedagem.detection.augment import MIRRORED, Augmentation, mirror_head
from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.objective import Objective
from fedagem.settings import parse_settings
from models.tiny_yolo import TinyYolo
from models.yolo_decode import Detections, detect
from models.yolo_loss import YoloLoss


@dataclass(frozen=True)
class Thresholds:
    """When a box is reported, and when two boxes of one class are the same object."""

    confidence: float = 0.3
    overlap: float = 0.45


class DetectionObjective(Objective):
    """Head maps as logits, the three-term loss on them, and augmentation that keeps stored maps aligned.

    Stored logits are half precision: they are the target of a squared distance, not of a gradient.
    """

    def __init__(
        self,
        anchors: Sequence[Sequence[float]],
        loss: Mapping[str, float] | None = None,
        augmentation: Mapping[str, float] | None = None,
        thresholds: Mapping[str, float] | None = None,
        min_size: float = 0.0,
    ) -> None:
        """All in the plain values of a plan.

        `anchors` are the model's, `loss` the weights of `YoloLoss`, `augmentation` the strengths of
        `Augmentation` (none without it), `thresholds` those of `Thresholds`; objects with a side under
        `min_size` frame pixels do not count in evaluations.
        """
        path = "task_runner.settings.objective.settings"
        self.anchors = tuple((float(width), float(height)) for width, height in anchors)
        self.loss = parse_settings(YoloLoss, loss or {}, f"{path}.loss")
        self.augmentation = (
            Augmentation(flip=0.0, zoom=0.0, colour=0.0)
            if augmentation is None
            else parse_settings(Augmentation, augmentation, f"{path}.augmentation")
        )
        self.thresholds = parse_settings(Thresholds, thresholds or {}, f"{path}.thresholds")
        self.min_size = min_size
        self._anchor_sizes = torch.tensor(self.anchors)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(model, TinyYolo)
        if model.config.anchors != self.anchors:
            raise PlanError(
                f"the model's anchors are {model.config.anchors}, the objective's {self.anchors}: "
                "give both the same in the plan."
            )
        # Channels last makes convolutions on a CPU about 1.7 times as fast; the values are the same.
        images = batch["x"].contiguous(memory_format=torch.channels_last).float().div_(255)
        head: Tensor = model(images)
        return head

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return self.loss(logits, batch["boxes"], self._anchor_sizes.to(logits))

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        return self.augmentation(batch, generator, len(self.anchors))

    def detections(self, logits: Tensor) -> Detections:
        """What the model sees, at the plan's thresholds."""
        return detect(
            logits,
            self._anchor_sizes.to(logits),
            confidence=self.thresholds.confidence,
            overlap=self.thresholds.overlap,
        )

    def restore_logits(self, logits: Tensor, view: Batch) -> Tensor:
        """Undo the mirroring; a zoomed view cannot be undone, so a method that stores logits refuses zoom."""
        if self.augmentation.zoom > 0:
            raise PlanError(
                f"a method that stores logits cannot use zoom {self.augmentation.zoom}: a zoomed frame's head map "
                "does not fit the stored frame; set the augmentation's zoom to 0."
            )
        if MIRRORED in view:
            chosen = view[MIRRORED][:, None, None, None]
            logits = torch.where(chosen, mirror_head(logits, len(self.anchors)), logits)
        return logits.half()
