"""The `data_loader.settings` of a benchmark plan."""

from dataclasses import dataclass, field
from typing import Any, Literal

from fedagem.errors import PlanError
from fedagem.plans.participation import Arrivals


@dataclass(frozen=True)
class TaskSettings:
    """How the tasks differ."""

    kind: Literal["rotated", "permuted", "sequential"]
    count: int
    max_angle: float = 180.0
    """Of `rotated`: angles are drawn between 0 and this."""
    curriculum: int = 0
    """Of `sequential`: 0 takes the groups of classes in order, other numbers are shuffled orders."""


@dataclass(frozen=True)
class PartitionSettings:
    """How the samples are spread over the clients."""

    kind: Literal["classes", "dirichlet"] = "classes"
    classes_per_client: int = 2
    alpha: float = 0.3
    scope: Literal["dataset", "task"] = "dataset"
    """Deal the whole data set once, of which each task then takes its classes; or deal every task's data anew."""


@dataclass(frozen=True)
class StreamSettings:
    """What the clients of a benchmark learn from, and in which order."""

    seed: int
    dataset: str
    tasks: TaskSettings
    clients: int
    rounds_per_task: int
    root: str | None = None
    dataset_settings: dict[str, Any] = field(default_factory=dict)
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    epochs: int = 1
    batch_size: int = 32
    asynchronous_samples: int | None = None
    """Each client goes through its tasks at its own pace: so many samples in every `rounds_per_task` rounds."""
    arrivals: Arrivals | None = None
    """Clients who come later; a task's data is dealt to those who are there."""
    samples_per_client: int | None = None
    """Keep at most so many training samples per client and task (on average over a client's tasks where boundaries are
    asynchronous), for shorter experiments."""
    test_samples: int | None = None
    """Keep at most so many test samples per task."""

    def __post_init__(self) -> None:
        least_one = ("clients", "rounds_per_task", "epochs", "batch_size")
        optional = ("asynchronous_samples", "samples_per_client", "test_samples")
        for name in (*least_one, *(name for name in optional if getattr(self, name) is not None)):
            if getattr(self, name) < 1:
                raise PlanError(f"data_loader.settings.{name} must be at least 1, not {getattr(self, name)}.")
        if self.tasks.count < 1:
            raise PlanError(f"data_loader.settings.tasks.count must be at least 1, not {self.tasks.count}.")
        if self.partition.alpha <= 0:
            raise PlanError(f"data_loader.settings.partition.alpha must be positive, not {self.partition.alpha}.")
        if self.asynchronous_samples and self.partition.scope == "task":
            raise PlanError(
                "data_loader.settings.asynchronous_samples needs partition.scope: dataset; with scope: task all "
                "clients have equally much of every task and would reach its end together."
            )
        if self.arrivals and self.partition.scope == "dataset":
            raise PlanError(
                "data_loader.settings.arrivals needs partition.scope: task, so that each task's data is dealt to "
                "the clients who have arrived."
            )
