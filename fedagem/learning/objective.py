"""What is being learned: the seam between the methods and classification or detection."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedagem.learning.buffer import Batch


class Objective(ABC):
    """Turns stored samples into logits h(x; w) and logits into named loss terms."""

    @abstractmethod
    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """h(x; w) for the samples as the buffer keeps them (images as uint8)."""

    @abstractmethod
    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Named terms, each a mean over the batch; their sum is the loss."""

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        """A lightly changed view of the batch to train on; stored `logits` in it stay aligned with the view."""
        return batch

    def restore_logits(self, logits: Tensor, view: Batch) -> Tensor:
        """The logits of an augmented view, as they belong to the un-augmented samples."""
        return logits


class Classification(Objective):
    """Cross-entropy on class logits; images arrive as uint8 and are scaled to [0, 1]."""

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        x = batch["x"]
        result: Tensor = model(x.float().div_(255) if x.dtype == torch.uint8 else x)
        return result

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"classification": functional.cross_entropy(logits, batch["y"])}
