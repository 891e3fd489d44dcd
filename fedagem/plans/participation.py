"""Who takes part in a round: everybody, a random sample, or those who have arrived."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedagem.errors import PlanError
from fedagem.seeding import derive_generator


@dataclass(frozen=True)
class Arrivals:
    """Clients come one group after the other, in the order of their names."""

    first: int
    """How many are there from the beginning."""
    then: int
    """How many join with every new task."""

    def __post_init__(self) -> None:
        if self.first < 1 or self.then < 0:
            raise PlanError(f"arrivals need at least 1 client first and none or more then, not {self}.")

    def present(self, task: int, clients: int) -> int:
        """How many clients are there during a task."""
        return min(self.first + task * self.then, clients)


@dataclass(frozen=True)
class Participation:
    """How the clients of a round are chosen; without settings, everybody takes part."""

    per_round: int | None = None
    """How many of those present are drawn for each round."""
    arrivals: Arrivals | None = None
    rounds_per_task: int | None = None
    """With arrivals: after how many rounds the next clients join."""

    def __post_init__(self) -> None:
        if self.per_round is not None and self.per_round < 1:
            raise PlanError(f"assigner.settings.participation.per_round must be at least 1, not {self.per_round}.")
        if (self.arrivals is None) != (self.rounds_per_task is None):
            raise PlanError("assigner.settings.participation takes arrivals and rounds_per_task together, or neither.")

    def draw(self, clients: Sequence[str], round_number: int, seed: int) -> list[str]:
        """The participants of a round in the order of `clients`; the same for the same seed, in any process."""
        present = list(clients)
        if self.arrivals is not None and self.rounds_per_task is not None:
            present = present[: self.arrivals.present(round_number // self.rounds_per_task, len(present))]
        if self.per_round is None or self.per_round >= len(present):
            return present
        generator = derive_generator(seed, "participants", round_number)
        drawn = torch.randperm(len(present), generator=generator)[: self.per_round].sort().values
        return [present[i] for i in drawn.tolist()]
