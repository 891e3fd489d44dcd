"""A federation in process with real clients: two of them learn digits in two tasks of five classes, two rounds each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from openfl.federated import Plan as OpenFLPlan

from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from src.aggregator import StagedAggregator
from src.collaborator import StagedCollaborator
from src.link import LocalLink
from src.simulate import build_federation, build_some

CHANGES: dict[str, Any] = {
    "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
    "task_runner.settings.buffer.capacity": 60,
    "data_loader.settings.tasks.kind": "sequential",
    "data_loader.settings.tasks.count": 2,
    "data_loader.settings.partition.kind": "dirichlet",
    "data_loader.settings.partition.alpha": 1.0,
    "data_loader.settings.partition.scope": "task",
    "data_loader.settings.clients": 2,
    "data_loader.settings.samples_per_client": 64,
    "data_loader.settings.test_samples": 50,
    "data_loader.settings.surrogate": {"dataset": "digits"},
}
ROUNDS = 4


def sequential_digits(method: str, fedagem: bool = True, **settings: Any) -> Plan:
    """The plan, with settings of the method."""
    chosen = {
        "task_runner.settings.method": method,
        "task_runner.settings.method_settings": settings,
        "task_runner.settings.fedagem": fedagem,
    }
    plan = Plan.load(find_plan("rotated_digits")).changed({**CHANGES, **chosen}, rounds=ROUNDS)
    check_plan(plan)
    return plan


class MethodFederation:
    """A run in the current directory. Whoever dies begins again with what is on disk, as a new process would."""

    def __init__(self) -> None:
        self.aggregator, self.collaborators = self._build()

    @staticmethod
    def _build() -> tuple[StagedAggregator, list[StagedCollaborator]]:
        plan = OpenFLPlan.parse(Path("plan/plan.yaml"), Path("plan/cols.yaml"), Path("plan/data.yaml"))
        aggregator, clients = build_federation(plan)
        return aggregator, list(clients)

    def until(self, happened: Callable[[], bool]) -> None:
        """Take turns until something has happened, or to the end."""
        active = list(self.collaborators)
        while active and not happened():
            for collaborator in list(active):
                if happened():
                    return
                if not collaborator.step():
                    active.remove(collaborator)

    def until_stage(self, round_number: int, stage: str) -> None:
        """Take turns until a stage begins."""
        self.until(lambda: (self.aggregator.round_number, self.aggregator.progress.stage.name) == (round_number, stage))

    def run(self) -> None:
        """To the end."""
        self.until(lambda: False)

    def restart_aggregator(self) -> None:
        """The clients stay, and go on with another aggregator."""
        assert self.aggregator._lock is not None
        self.aggregator._lock.close()
        self.aggregator, _ = self._build()
        for collaborator in self.collaborators:
            collaborator.link = LocalLink(self.aggregator, collaborator.collaborator_name)

    def restart_clients(self) -> None:
        """The aggregator stays, with the results that it has."""
        names = [collaborator.collaborator_name for collaborator in self.collaborators]
        self.collaborators = list(build_some(names, lambda name: LocalLink(self.aggregator, name)))
