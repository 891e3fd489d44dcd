"""A round as the plan shows it: stages, one after the other, each with its tasks and its clients."""

from dataclasses import dataclass, field
from typing import Literal

from fedagem.errors import PlanError
from fedagem.plans.participation import Participation


@dataclass(frozen=True)
class Stage:
    """Tasks whose results are aggregated before the next stage begins."""

    name: str
    tasks: list[str]
    rounds: Literal["all", "first"] = "all"
    every: int = 1
    """Run in every n-th round only: the n-th, the 2n-th and so on."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise PlanError(f"assigner.settings.stages ({self.name}) every must be at least 1, not {self.every}.")
        if not self.tasks:
            raise PlanError(f"assigner.settings.stages ({self.name}) has no tasks.")

    def runs_in(self, round_number: int) -> bool:
        """Whether the stage belongs to the round."""
        if self.rounds == "first":
            return round_number == 0
        return (round_number + 1) % self.every == 0


@dataclass(frozen=True)
class RoundSettings:
    """The `assigner.settings` of a plan."""

    stages: list[Stage]
    participation: Participation = field(default_factory=Participation)
    seed: int = 0
    """Draws the participants of each round; `--seed` sets it along with the others."""
    selected_task_group: str = "learning"
    """OpenFL's own: `evaluation` runs the stages of the first round and nothing else."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise PlanError("assigner.settings.stages is empty: a round needs at least one stage.")

    def stage_after(self, round_number: int, name: str) -> tuple[int, str] | None:
        """The round and the name of the stage that follows the one that is over; None where nothing ever follows."""
        names = [stage.name for stage in self.stages]
        place = names.index(name) if name in names else -1
        if later := [stage.name for stage in self.stages[place + 1 :] if stage.runs_in(round_number)]:
            return round_number, later[0]
        for number in range(round_number + 1, round_number + 1 + max(stage.every for stage in self.stages)):
            if due := [stage.name for stage in self.stages if stage.runs_in(number)]:
                return number, due[0]
        return None
