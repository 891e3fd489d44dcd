"""Image and feature classification: the objective of the paper's benchmarks."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedagem.learning.buffer import Batch
from fedagem.learning.objective import Objective


class Classification(Objective):
    """Cross-entropy on class logits; images arrive as uint8 and are scaled to [0, 1]."""

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        x = batch["x"]
        result: Tensor = model(x.float().div_(255) if x.dtype == torch.uint8 else x)
        return result

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"classification": functional.cross_entropy(logits, batch["y"])}
