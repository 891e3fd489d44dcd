"""A round as the plan shows it: stages, one after the other, each with its tasks and its clients."""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field, model_validator

from fedagem.errors import PlanError
from fedagem.seeding import derive_generator
from fedagem.settings import Settings
from fedagem.tasks.settings import Arrivals


class Stage(Settings):
    """Tasks whose results are aggregated before the next stage begins."""

    name: str
    """What the stage is called in metrics and logs."""
    tasks: list[str] = Field(min_length=1)
    """The names of its tasks, in the section `tasks`."""
    rounds: Literal["all", "first"] = "all"
    """Whether it runs in all rounds, or before the first only."""
    every: int = Field(1, ge=1)
    """Run in every n-th round only: the n-th, the 2n-th and so on."""

    def runs_in(self, round_number: int) -> bool:
        """Whether the stage belongs to the round."""
        if self.rounds == "first":
            return round_number == 0
        return (round_number + 1) % self.every == 0


class Participation(Settings):
    """How the clients of a round are chosen; without settings, everybody takes part."""

    per_round: int | None = Field(None, ge=1)
    """How many of those present are drawn for each round."""
    arrivals: Arrivals | None = None
    """Clients who come later, as in data_loader.settings.arrivals."""
    rounds_per_task: int | None = Field(None, ge=1)
    """With arrivals: after how many rounds the next clients join."""

    @model_validator(mode="after")
    def _both_or_neither(self) -> "Participation":
        if (self.arrivals is None) != (self.rounds_per_task is None):
            raise PlanError("assigner.settings.participation takes arrivals and rounds_per_task together, or neither.")
        return self

    def present(self, clients: Sequence[str], round_number: int) -> list[str]:
        """Those of the clients who have arrived by a round."""
        if self.arrivals is None or self.rounds_per_task is None:
            return list(clients)
        return list(clients[: self.arrivals.present(round_number // self.rounds_per_task, len(clients))])

    def draw(self, clients: Sequence[str], round_number: int, seed: int) -> list[str]:
        """The participants of a round in the order of `clients`; the same for the same seed, in any process."""
        present = self.present(clients, round_number)
        if self.per_round is None or self.per_round >= len(present):
            return present
        generator = derive_generator(seed, "participants", round_number)
        drawn = torch.randperm(len(present), generator=generator)[: self.per_round].sort().values
        return [present[i] for i in drawn.tolist()]


class RoundSettings(Settings):
    """The `assigner.settings` of a plan."""

    stages: list[Stage] = Field(min_length=1)
    """The stages of a round, in order."""
    participation: Participation = Field(default_factory=Participation)
    """Who takes part in a round."""
    seed: int = 0
    """Draws the participants of each round; `--seed` sets it along with the others."""
    selected_task_group: str = "learning"
    """OpenFL's own: `evaluation` runs the stages of the first round and nothing else."""

    def stage_after(self, round_number: int, name: str) -> tuple[int, str] | None:
        """The round and the name of the stage that follows the one that is over; None if nothing ever follows."""
        names = [stage.name for stage in self.stages]
        place = names.index(name) if name in names else -1
        if later := [stage.name for stage in self.stages[place + 1 :] if stage.runs_in(round_number)]:
            return round_number, later[0]
        for number in range(round_number + 1, round_number + 1 + max(stage.every for stage in self.stages)):
            if due := [stage.name for stage in self.stages if stage.runs_in(number)]:
                return number, due[0]
        return None
