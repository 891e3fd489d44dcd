"""Detection as an objective: what every method of this project needs to know about TinyYOLO."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedagem.buffer import Batch
from fedagem.detection.augment import MIRRORED, Augmentation, mirror_head
from fedagem.errors import PlanError
from fedagem.objective import Objective
from models.tiny_yolo import TinyYoloConfig
from models.yolo_loss import YoloLoss


class DetectionObjective(Objective):
    """Head maps as logits, the three-term loss on them, and augmentation that keeps stored maps aligned.

    Stored logits are half precision: they are the target of a squared distance, not of a gradient.
    """

    def __init__(
        self, config: TinyYoloConfig, loss: YoloLoss | None = None, augmentation: Augmentation | None = None
    ) -> None:
        self.config = config
        self.loss = loss or YoloLoss()
        self.augmentation = augmentation or Augmentation(flip=0.0, zoom=0.0, colour=0.0)
        self._anchors = torch.tensor(config.anchors)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        # Channels last makes convolutions on a CPU about 1.7 times as fast; the values are the same.
        images = batch["x"].to(dtype=torch.float32, memory_format=torch.channels_last).div_(255)
        head: Tensor = model(images)
        return head

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return self.loss(logits, batch["boxes"], self._anchors.to(logits))

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        return self.augmentation(batch, generator, len(self.config.anchors))

    def restore_logits(self, logits: Tensor, view: Batch) -> Tensor:
        """Undo the mirroring; a zoomed view cannot be undone, so a method that stores logits refuses zoom."""
        if self.augmentation.zoom > 0:
            raise PlanError(
                f"a method that stores logits cannot use zoom {self.augmentation.zoom}: a zoomed frame's head map "
                "does not fit the stored frame; set the augmentation's zoom to 0."
            )
        if MIRRORED in view:
            chosen = view[MIRRORED][:, None, None, None]
            logits = torch.where(chosen, mirror_head(logits, len(self.config.anchors)), logits)
        return logits.half()
