"""The replay buffer M^k: a fixed number of samples of everything a client has seen."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

Batch = dict[str, Tensor]
"""Named tensors with the same first dimension: `x`, and whatever belongs to each sample (`y`, `boxes`, `logits`)."""

FIRST = "first"
"""Names the tensor that says of each sample whether its client trains on it for the first time; if a batch has it, only
those samples are offered to the buffer."""

Policy = Callable[[int, int, int, torch.Generator], Tensor]
"""Which slot of the buffer each sample of a batch takes.

The arguments are the number of samples seen before the batch, the number of incoming ones, and the capacity; the
answer has one slot per incoming sample, -1 for a sample that is not kept. Later samples of a batch overwrite earlier
ones in the same slot.
"""
PolicyName = Literal["reservoir", "sliding_window", "random_replacement"]
"""The three policies of the paper's ablation."""


def reservoir(seen: int, incoming: int, capacity: int, generator: torch.Generator) -> Tensor:
    """Algorithm ReservoirSampling: every sample seen so far is kept with the same probability."""
    n = torch.arange(seen + 1, seen + incoming + 1)
    j = (torch.rand(incoming, dtype=torch.float64, generator=generator) * n).long()
    slot = torch.where(n <= capacity, n - 1, j)
    return torch.where(slot < capacity, slot, -1)


def sliding_window(seen: int, incoming: int, capacity: int, generator: torch.Generator) -> Tensor:
    """The newest samples: each one replaces the oldest."""
    return torch.arange(seen, seen + incoming) % capacity


def random_replacement(seen: int, incoming: int, capacity: int, generator: torch.Generator) -> Tensor:
    """Fill up, then let every new sample replace a random one."""
    position = torch.arange(seen, seen + incoming)
    chosen = torch.randint(capacity, (incoming,), generator=generator)
    return torch.where(position < capacity, position, chosen)


POLICIES: dict[PolicyName, Policy] = {
    "reservoir": reservoir,
    "sliding_window": sliding_window,
    "random_replacement": random_replacement,
}


class ReplayBuffer:
    """Keeps whole samples, any set of named tensors, in the dtype they come in (images stay uint8)."""

    def __init__(self, capacity: int, policy: PolicyName = "reservoir", device: torch.device | None = None) -> None:
        self.capacity = capacity
        self.policy = policy
        self.device = device or torch.device("cpu")
        """Where the samples are kept; which ones stay is always decided on the host."""
        self.seen = 0
        """n of the paper: how many samples were offered so far."""
        self._slots: Batch = {}

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def add(self, batch: Batch, generator: torch.Generator) -> None:
        """Offer a batch; the policy decides which samples stay."""
        if FIRST in batch:
            first = batch[FIRST]
            batch = {name: values[first.to(values.device)] for name, values in batch.items() if name != FIRST}
        lengths = {name: len(values) for name, values in batch.items()}
        incoming = next(iter(lengths.values()))
        if any(length != incoming for length in lengths.values()):
            raise ValueError(f"the tensors of a batch must have the same length, but have {lengths}")
        if self.capacity == 0 or incoming == 0:
            self.seen += incoming
            return
        if not self._slots:
            self._reserve(batch)
        self._check_like_kept(batch)
        slot = POLICIES[self.policy](self.seen, incoming, self.capacity, generator)
        self.seen += incoming
        chosen = {place: sample for sample, place in enumerate(slot.tolist()) if place >= 0}
        if not chosen:  # most batches, once much more was seen than is kept
            return
        target, source = torch.tensor(list(chosen), device=self.device), torch.tensor(list(chosen.values()))
        for name, values in batch.items():
            kept = values.detach().index_select(0, source.to(values.device))
            self._slots[name].index_copy_(0, target, kept.to(self.device))

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """At most `count` different samples, drawn uniformly."""
        chosen = torch.randperm(len(self), generator=generator)[:count].to(self.device)
        return {name: values.index_select(0, chosen) for name, values in self._slots.items()}

    def fill(self, samples: Batch) -> None:
        """Keep exactly these samples in this order: what a method chose itself counts as all that it has seen."""
        count = len(samples["x"])
        if count > self.capacity:
            raise ValueError(f"a buffer of {self.capacity} samples cannot hold {count}")
        self._reserve(samples)
        for name, values in samples.items():
            self._slots[name][:count] = values
        self.seen = count

    def contents(self) -> Batch:
        """Everything kept, in slot order (views)."""
        return {name: values[: len(self)] for name, values in self._slots.items()}

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue from here; it shares the buffer's memory, so save it before the next batch."""
        return {
            "capacity": self.capacity,
            "policy": self.policy,
            "seen": self.seen,
            "slots": {name: _used(values, len(self)).cpu() for name, values in self._slots.items()},
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any], device: torch.device | None = None) -> "ReplayBuffer":
        """The buffer that `state_dict` described."""
        buffer = cls(state["capacity"], state["policy"], device)
        buffer.seen = state["seen"]
        if state["slots"]:
            buffer._reserve(state["slots"])
            for name, values in state["slots"].items():
                buffer._slots[name][: len(values)] = values
        return buffer

    def _reserve(self, like: Batch) -> None:
        """Room for `capacity` samples of this kind; the system hands out the memory as it is filled."""
        self._slots = {
            name: torch.zeros((self.capacity, *values.shape[1:]), dtype=values.dtype, device=self.device)
            for name, values in like.items()
        }

    def _check_like_kept(self, batch: Batch) -> None:
        offered = {name: (tuple(values.shape[1:]), values.dtype) for name, values in batch.items()}
        kept = {name: (tuple(values.shape[1:]), values.dtype) for name, values in self._slots.items()}
        if offered != kept:
            raise ValueError(f"the buffer keeps samples like {kept}, but was offered {offered}")


def _used(values: Tensor, count: int) -> Tensor:
    """The first samples, without a copy and with no more memory than theirs: of a view, torch saves all of the rest."""
    first = values[:count]
    storage = values.untyped_storage()[: first.nbytes]
    return torch.empty(0, dtype=values.dtype, device=values.device).set_(storage, 0, first.shape, first.stride())
