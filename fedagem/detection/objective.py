"""Detection as an objective: what every method of this project needs to know about detectors, and about TinyYOLO."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, Field
from torch import Tensor, nn

from fedagem.detection.augment import MIRRORED, Augmentation, mirror_head
from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.objective import Objective
from fedagem.settings import Settings, Several, parse_settings
from models.detections import Candidates, Detections, select
from models.tiny_yolo import Anchor, TinyYolo
from models.yolo_decode import candidates
from models.yolo_loss import YoloLoss


class Thresholds(Settings):
    """When a box is reported, and when two boxes of one class are the same object."""

    confidence: float = Field(0.3, ge=0, le=1)
    """The least confidence of a reported box."""
    overlap: float = Field(0.45, ge=0, le=1)
    """Of two boxes of one class that overlap by more than this, only the more confident one is reported."""


class FrameSettings(Settings):
    """What every detector's objective can be told."""

    augmentation: Augmentation = Field(default_factory=lambda: Augmentation(flip=0.0, zoom=0.0, colour=0.0))
    """How frames are changed for training; not at all without it."""
    thresholds: Thresholds = Field(default_factory=Thresholds)
    """Which boxes are reported."""
    min_size: float = Field(0.0, ge=0)
    """Objects with a side of fewer frame pixels do not count in evaluations."""


class DetectionSettings(FrameSettings):
    """The `task_runner.settings.objective.settings` of a driving plan with TinyYOLO."""

    anchors: Several[Anchor]
    """The anchors of the model."""
    loss: YoloLoss = Field(default_factory=YoloLoss)
    """The weights of the loss terms."""


class FrameObjective(Objective):
    """What all detectors have in common: frames come as bytes, objects as rows of `boxes`."""

    def __init__(self, chosen: FrameSettings) -> None:
        self.augmentation = chosen.augmentation
        self.thresholds = chosen.thresholds
        self.min_size = chosen.min_size

    @abstractmethod
    def candidates(self, raw: Any) -> Candidates:
        """What a network's outputs say of every place."""

    def detections(self, raw: Any, confidence: float | None = None) -> Detections:
        """What the model sees, at the plan's thresholds or at another confidence."""
        least = self.thresholds.confidence if confidence is None else confidence
        return select(self.candidates(raw), confidence=least, overlap=self.thresholds.overlap)

    def ready(self, batch: Batch) -> Batch:
        """Leave out slots for boxes that no frame of the batch uses, while their number can be read for nothing."""
        if (boxes := batch.get("boxes")) is None or boxes.device.type != "cpu":
            return batch
        used = torch.nonzero((boxes[..., 0] >= 0).any(dim=0))
        return {**batch, "boxes": boxes[:, : int(used[-1]) + 1 if len(used) else 0]}

    @staticmethod
    def images(batch: Batch) -> Tensor:
        """The frames in [0, 1]; channels last makes convolutions on a CPU 1.7 times as fast, with the same values."""
        return batch["x"].contiguous(memory_format=torch.channels_last).float().div_(255)

    def refuse_zoom(self) -> None:
        """Refuse what would move objects away from the stored outputs of their frame."""
        if self.augmentation.zoom > 0:
            raise PlanError(
                f"a method that stores logits cannot use zoom {self.augmentation.zoom}: a zoomed frame's head map "
                "does not fit the stored frame; set the augmentation's zoom to 0."
            )


class DetectionObjective(FrameObjective):
    """TinyYOLO's head maps as logits, the three-term loss on them, and augmentation that keeps stored maps aligned.

    Stored logits are half precision: they are the target of a squared distance, not of a gradient.
    """

    Settings: ClassVar[type[BaseModel]] = DetectionSettings

    def __init__(self, **settings: Any) -> None:
        """The settings are `DetectionSettings`, in the plain values of a plan."""
        chosen = parse_settings(DetectionSettings, settings, "task_runner.settings.objective.settings")
        super().__init__(chosen)
        self.anchors = chosen.anchors
        self.loss = chosen.loss
        self._anchor_sizes = torch.tensor(self.anchors)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(model, TinyYolo)
        if model.config.anchors != self.anchors:
            raise PlanError(
                f"the model's anchors are {model.config.anchors}, the objective's {self.anchors}: "
                "give both the same in the plan."
            )
        head: Tensor = model(self.images(batch))
        return head

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return self.loss(logits, batch["boxes"], self._anchor_sizes.to(logits))

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        return self.augmentation(batch, generator, len(self.anchors))

    def candidates(self, raw: Tensor) -> Candidates:
        return candidates(raw, self._anchor_sizes.to(raw))

    def restore_logits(self, logits: Tensor, view: Batch) -> Tensor:
        """Undo the mirroring; a zoomed view cannot be undone, so a method that stores logits refuses zoom."""
        self.refuse_zoom()
        if MIRRORED in view:
            chosen = view[MIRRORED][:, None, None, None]
            logits = torch.where(chosen, mirror_head(logits, len(self.anchors)), logits)
        return logits.half()
