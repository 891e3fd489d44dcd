"""Detection as an objective: what every method of this project needs to know about TinyYOLO."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import BaseModel, Field
from torch import Tensor, nn

from fedagem.detection.augment import MIRRORED, Augmentation, mirror_head
from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.objective import Objective
from fedagem.settings import Settings, Several, parse_settings
from models.tiny_yolo import Anchor, TinyYolo
from models.yolo_decode import Detections, detect
from models.yolo_loss import YoloLoss


class Thresholds(Settings):
    """When a box is reported, and when two boxes of one class are the same object."""

    confidence: float = Field(0.3, ge=0, le=1)
    """The least confidence of a reported box."""
    overlap: float = Field(0.45, ge=0, le=1)
    """Of two boxes of one class that overlap by more than this, only the more confident one is reported."""


class DetectionSettings(Settings):
    """The `task_runner.settings.objective.settings` of a driving plan."""

    anchors: Several[Anchor]
    """The anchors of the model."""
    loss: YoloLoss = Field(default_factory=YoloLoss)
    """The weights of the loss terms."""
    augmentation: Augmentation = Field(default_factory=lambda: Augmentation(flip=0.0, zoom=0.0, colour=0.0))
    """How frames are changed for training; not at all without it."""
    thresholds: Thresholds = Field(default_factory=Thresholds)
    """Which boxes are reported."""
    min_size: float = Field(0.0, ge=0)
    """Objects with a side of fewer frame pixels do not count in evaluations."""


class DetectionObjective(Objective):
    """Head maps as logits, the three-term loss on them, and augmentation that keeps stored maps aligned.

    Stored logits are half precision: they are the target of a squared distance, not of a gradient.
    """

    Settings: ClassVar[type[BaseModel]] = DetectionSettings

    def __init__(self, **settings: Any) -> None:
        """The settings are `DetectionSettings`, in the plain values of a plan."""
        chosen = parse_settings(DetectionSettings, settings, "task_runner.settings.objective.settings")
        self.anchors = chosen.anchors
        self.loss = chosen.loss
        self.augmentation = chosen.augmentation
        self.thresholds = chosen.thresholds
        self.min_size = chosen.min_size
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
