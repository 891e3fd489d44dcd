"""What a method works with on one client: the model, its flat gradient, the objective, the buffer and its own notes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fedagem.errors import NonFiniteLossError
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.objective import Objective
from fedagem.seeding import derive_generator


@dataclass(frozen=True)
class CurrentTask:
    """What a method learns about the current task if it needs task boundaries."""

    index: int
    classes: range
    """The classes of this task."""
    earlier: tuple[int, ...]
    """The classes of the tasks before it; empty if only the domain changes."""
    sequential: bool
    """Whether tasks bring new classes; if not, only the domain changes."""


@dataclass(frozen=True)
class Place:
    """Which client this is, and in which round: the same for all methods and in every process."""

    rank: int = 0
    clients: int = 1
    round_number: int = 0
    seed: int = 0

    def shared_generator(self, use: str) -> torch.Generator:
        """Draws the same numbers on every client in a round, to agree on something without talking."""
        return derive_generator(self.seed, use, self.round_number)


class LocalData(Protocol):
    """The samples of a client beyond the current batch."""

    def samples(self) -> Batch:
        """What the client trains on in this round, and in all rounds of a task."""

    def surrogate(self) -> Batch | None:
        """The client's share of an unlabelled surrogate data set, if the plan names one."""


@dataclass
class Learner:
    """One client's view during its turn: methods read batches, look into the buffer and leave a gradient."""

    model: FlatModel
    objective: Objective
    buffer: ReplayBuffer
    generator: torch.Generator
    """All draws of a turn are made on the processor, so that every device learns from the same samples."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What the method keeps between rounds, by name: tensors and plain values. It survives the process."""
    received: Mapping[str, Tensor] = field(default_factory=dict)
    """What the method asked the server for, on the model's device."""
    task: CurrentTask | None = None
    """None for methods that need no boundaries: they never learn the task index."""
    teacher: nn.Module | None = None
    """The frozen global model of an earlier task; None during the first."""
    data: LocalData | None = None
    place: Place = field(default_factory=Place)
    bf16: bool = False
    """Whether the forward pass computes in bfloat16."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the method works out for one round."""

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return self.model.weights.device

    @property
    def gradient(self) -> Tensor:
        """The flat gradient that the optimiser sees."""
        return self.model.gradient

    @cached_property
    def start(self) -> Tensor:
        """The flat weights as they were when this was first looked at: in `begin_round`, those of the global model."""
        return self.model.weights.detach().clone()

    def to_device(self, batch: Batch) -> Batch:
        """The batch on the model's device; a sample crosses once, here or on its way into a buffer that is there."""
        return move(self.objective.ready(batch), self.device)

    def to_buffer_device(self, batch: Batch) -> Batch:
        """The batch where the buffer keeps its samples: in the host's memory, unless the plan says otherwise."""
        return move(batch, self.buffer.device)

    def augment(self, batch: Batch) -> Batch:
        """A view of the batch to train on, on the model's device."""
        return self.objective.augment(self.to_device(batch), self.generator)

    def replay(self, count: int) -> Batch | None:
        """A random sample of the buffer to train on, or None while the buffer is empty."""
        if len(self.buffer) == 0:
            return None
        return self.augment(self.buffer.sample(count, self.generator))

    def logits(self, view: Batch) -> Tensor:
        """h(x; w)."""
        return self.logits_of(self.model.module, view)

    def logits_of(self, module: nn.Module, view: Batch) -> Tensor:
        """What another network of the same kind, a teacher, says."""
        if not self.bf16:
            return self.objective.logits(module, view)
        with torch.autocast(self.device.type, torch.bfloat16):
            return self.objective.logits(module, view).float()

    def losses(self, logits: Tensor, view: Batch) -> dict[str, Tensor]:
        """Named loss terms of the batch."""
        return self.objective.losses(logits, view)

    def backward(self, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Leave the gradient of the summed losses in `gradient`; the terms themselves come back detached."""
        self.gradient.zero_()
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        return {name: term.detach() for name, term in losses.items()}

    @staticmethod
    def refuse_non_finite(losses: Mapping[str, float]) -> None:
        """Refuse losses that are not finite."""
        if not math.isfinite(sum(losses.values())):
            raise NonFiniteLossError(
                f"the loss is not finite ({dict(losses)}): lower the learning rate or check the data."
            )


def move(batch: Batch, device: torch.device) -> Batch:
    """The batch on a device, without waiting for it to arrive."""
    if all(values.device == device for values in batch.values()):
        return batch
    pinned = device.type == "cuda"
    return {
        name: (values.pin_memory() if pinned and values.device.type == "cpu" else values).to(
            device, non_blocking=pinned
        )
        for name, values in batch.items()
    }
