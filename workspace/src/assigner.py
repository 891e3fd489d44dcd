"""OpenFL's assigner for rounds that have stages."""

from typing import Any

from openfl.component.assigner.assigner import Assigner

from fedagem.errors import PlanError
from fedagem.plans.federation import FederatedTask, parse_tasks
from fedagem.plans.rounds import RoundSettings, Stage
from fedagem.settings import parse_settings, suggestion


class StagedAssigner(Assigner):  # type: ignore[misc]
    """Knows the stages of each round and who takes part; the aggregator walks through them."""

    def __init__(self, stages: list[dict[str, Any]], participation: Any = None, seed: int = 0, **settings: Any) -> None:
        chosen = {"stages": stages, "participation": participation or {}, "seed": seed}
        self.settings = parse_settings(RoundSettings, chosen, "assigner.settings")
        self.stages = self.settings.stages
        super().__init__(**settings)

    def define_task_assignments(self) -> None:
        """Check stages and tasks; with the task group `evaluation` only the stages of the first round are run."""
        self._parsed = parse_tasks(self.tasks)
        for stage in self.stages:
            for task in stage.tasks:
                if task not in self._parsed:
                    path = f"assigner.settings.stages ({stage.name})"
                    raise PlanError(f"{path} names the task {task!r}{suggestion(task, self._parsed)}")
        if self.is_task_group_evaluation():
            self.stages = [stage for stage in self.stages if stage.rounds == "first"]
        self.all_tasks_in_groups = [task for stage in self.stages for task in stage.tasks]

    def stages_of(self, round_number: int) -> list[Stage]:
        """The stages of a round, in order."""
        return [stage for stage in self.stages if stage.runs_in(round_number)]

    def task(self, name: str) -> FederatedTask:
        """What the plan says of a task."""
        return self._parsed[name]

    def participants(self, round_number: int) -> list[str]:
        """Who learns in a round."""
        return self.settings.participation.draw(self.authorized_cols, round_number, self.settings.seed)

    def members(self, stage: Stage, round_number: int) -> list[str]:
        """Who works in a stage: the round's participants if something is learned.

        The end of a task is everybody's who has arrived: a client that is not drawn for the task's last round has
        learned it, too. A stage that publishes nothing only measures. It is everybody's, because the test data is
        spread over all clients and accuracy is that of the whole.
        """
        tasks = [self._parsed[name] for name in stage.tasks]
        if any(task.function == "end_task" for task in tasks):
            return self.settings.participation.present(self.authorized_cols, round_number)
        if any(task.kwargs.publishes for task in tasks):
            return self.participants(round_number)
        return list(self.authorized_cols)

    def get_tasks_for_collaborator(self, collaborator_name: str, round_number: int) -> list[str]:
        """All tasks of a collaborator's round, over all stages."""
        return [
            task
            for stage in self.stages_of(round_number)
            if collaborator_name in self.members(stage, round_number)
            for task in stage.tasks
        ]

    def get_collaborators_for_task(self, task_name: str, round_number: int) -> list[str]:
        """Everyone who is to do the task in the round."""
        stages = [stage for stage in self.stages_of(round_number) if task_name in stage.tasks]
        return self.members(stages[0], round_number) if stages else []
