"""Which slot of the buffer an incoming sample takes: the three policies of the paper's ablation.

A policy looks at a whole batch at once. `seen` counts the samples observed before the batch; the answer has one slot
per incoming sample, or -1 where the sample is not kept. Later samples of a batch overwrite earlier ones in a slot.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Policy = Callable[[int, int, int, torch.Generator], Tensor]


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


POLICIES: dict[str, Policy] = {
    "reservoir": reservoir,
    "sliding_window": sliding_window,
    "random_replacement": random_replacement,
}
