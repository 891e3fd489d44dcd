"""A round as the plan shows it: stages, one after the other, each with its tasks."""

from dataclasses import dataclass
from typing import Any, Literal

from openfl.component.assigner.assigner import Assigner

from fedagem.errors import PlanError
from fedagem.settings import parse_settings, suggestion


@dataclass(frozen=True)
class Stage:
    """Tasks whose results are aggregated before the next stage begins."""

    name: str
    tasks: list[str]
    rounds: Literal["all", "first"] = "all"
    every: int = 1
    """Run in every n-th round only: the n-th, the 2n-th and so on."""

    def runs_in(self, round_number: int) -> bool:
        """Whether the stage belongs to the round."""
        if self.rounds == "first":
            return round_number == 0
        return (round_number + 1) % self.every == 0


class StagedAssigner(Assigner):  # type: ignore[misc]
    """Knows the stages of each round and who takes part; the aggregator walks through them."""

    def __init__(self, stages: list[dict[str, Any]], **settings: Any) -> None:
        self.stages = [parse_settings(Stage, stage, f"assigner.settings.stages[{i}]") for i, stage in enumerate(stages)]
        super().__init__(**settings)

    def define_task_assignments(self) -> None:
        """Check the plan's stages; with the task group `evaluation` only the stages of the first round are run."""
        for stage in self.stages:
            for task in stage.tasks:
                if task not in self.tasks:
                    path = f"assigner.settings.stages ({stage.name})"
                    raise PlanError(f"{path} names the task {task!r}{suggestion(task, self.tasks)}")
        if self.is_task_group_evaluation():
            self.stages = [stage for stage in self.stages if stage.rounds == "first"]
        self.all_tasks_in_groups = [task for stage in self.stages for task in stage.tasks]

    def stages_of(self, round_number: int) -> list[Stage]:
        """The stages of a round, in order."""
        return [stage for stage in self.stages if stage.runs_in(round_number)]

    def publishes(self, task: str) -> list[str]:
        """What the task sends to be averaged."""
        return list(self.tasks[task].get("kwargs", {}).get("publishes", []))

    def participants(self, round_number: int) -> list[str]:
        """Who takes part in a round, in the order in which results are summed."""
        return list(self.authorized_cols)

    def get_tasks_for_collaborator(self, collaborator_name: str, round_number: int) -> list[str]:
        """All tasks of a collaborator's round, over all stages."""
        if collaborator_name not in self.participants(round_number):
            return []
        return [task for stage in self.stages_of(round_number) for task in stage.tasks]

    def get_collaborators_for_task(self, task_name: str, round_number: int) -> list[str]:
        """Everyone who takes part in the round."""
        return self.participants(round_number)
