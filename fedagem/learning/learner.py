"""What a method works with on one client: the model, its flat gradient, the objective and the buffer."""

import torch
from torch import Tensor

from fedagem.errors import NonFiniteLossError
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.objective import Objective


class Learner:
    """One client's view during a task: methods read batches, look into the buffer and leave a gradient."""

    def __init__(
        self, model: FlatModel, objective: Objective, buffer: ReplayBuffer, generator: torch.Generator
    ) -> None:
        self.model = model
        self.objective = objective
        self.buffer = buffer
        self.generator = generator

    @property
    def gradient(self) -> Tensor:
        """The flat gradient that the refinement and the optimiser see."""
        return self.model.gradient

    def augment(self, batch: Batch) -> Batch:
        """A view of the batch to train on."""
        return self.objective.augment(batch, self.generator)

    def replay(self, count: int) -> Batch | None:
        """A random sample of the buffer to train on, or None while the buffer is empty."""
        if len(self.buffer) == 0:
            return None
        return self.augment(self.buffer.sample(count, self.generator))

    def logits(self, view: Batch) -> Tensor:
        """h(x; w)."""
        return self.objective.logits(self.model.module, view)

    def losses(self, logits: Tensor, view: Batch) -> dict[str, Tensor]:
        """Named loss terms of the batch."""
        return self.objective.losses(logits, view)

    def backward(self, losses: dict[str, Tensor]) -> dict[str, float]:
        """Leave the gradient of the summed losses in `gradient`; refuses a loss that is not finite."""
        self.gradient.zero_()
        loss = torch.stack(list(losses.values())).sum()
        values = {name: float(term.detach()) for name, term in losses.items()}
        if not torch.isfinite(loss):
            raise NonFiniteLossError(f"the loss is not finite ({values}): lower the learning rate or check the data.")
        loss.backward()  # type: ignore[no-untyped-call]
        return values
