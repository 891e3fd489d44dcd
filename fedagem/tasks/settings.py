"""The `data_loader.settings` of a benchmark plan."""

from typing import Any, Literal

from pydantic import Field, model_validator

from fedagem.errors import PlanError
from fedagem.settings import Settings


class Arrivals(Settings):
    """Clients come one group after the other, in the order of their names."""

    first: int = Field(ge=1)
    """How many are there from the beginning."""
    then: int = Field(ge=0)
    """How many join with every new task."""

    def present(self, task: int, clients: int) -> int:
        """How many clients are there during a task."""
        return min(self.first + task * self.then, clients)


class TaskSettings(Settings):
    """How the tasks differ."""

    kind: Literal["rotated", "permuted", "sequential"]
    """Rotated or permuted images (domain-incremental), or groups of classes (class- and task-incremental)."""
    count: int = Field(ge=1)
    """How many tasks there are."""
    max_angle: float = 180.0
    """Of `rotated`: angles are drawn between 0 and this."""
    curriculum: int = 0
    """Of `sequential`: 0 takes the groups of classes in order, other numbers are shuffled orders."""


class PartitionSettings(Settings):
    """How the samples are spread over the clients."""

    kind: Literal["classes", "dirichlet", "dirichlet_over_clients"] = "classes"
    """A few classes for each client; or a Dirichlet distribution over the classes for each client, with equally many
    samples for all, as in the paper's text; or one over the clients for each class, with at least ten samples for all,
    as in the authors' code."""
    classes_per_client: int = 2
    """Of `classes`: how many each client has."""
    alpha: float = Field(0.3, gt=0)
    """Of both `dirichlet` kinds: the smaller, the more unequal the shares."""
    scope: Literal["dataset", "task"] = "dataset"
    """Deal the whole data set once, of which each task then takes its classes; or deal the data of every task again."""


class SurrogateSettings(Settings):
    """Images without labels that stand for those of earlier tasks; each client has an equal share of them."""

    dataset: str
    """The data set, by its name in `fedagem/tasks/sources`; only its training images are used."""
    root: str | None = None
    """The folder of the data, absolute or within the data folder."""
    dataset_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the data set."""


class StreamSettings(Settings):
    """What the clients of a benchmark learn from, and in which order."""

    seed: int
    """The seed of the run."""
    dataset: str
    """The data set, by its name in `fedagem/tasks/sources`."""
    tasks: TaskSettings
    """How the tasks differ."""
    clients: int = Field(ge=1)
    """How many clients take part."""
    rounds_per_task: int = Field(ge=1)
    """How many rounds a task lasts."""
    root: str | None = None
    """The folder of the data, absolute or within the data folder (FEDAGEM_DATA, or ~/.cache/fedagem)."""
    dataset_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the data set."""
    partition: PartitionSettings = Field(default_factory=PartitionSettings)
    """How the samples are spread over the clients."""
    epochs: int = Field(1, ge=1)
    """Passes over a client's data in each round."""
    batch_size: int = Field(32, ge=1)
    """Samples in a step."""
    asynchronous_samples: int | None = Field(None, ge=1)
    """Each client goes through its tasks at its own pace: so many samples in every `rounds_per_task` rounds."""
    arrivals: Arrivals | None = None
    """Clients who come later; the data of a task is dealt to those who are there."""
    samples_per_client: int | None = Field(None, ge=1)
    """Keep at most so many training samples per client and task (on average over a client's tasks if boundaries are
    asynchronous), for shorter experiments."""
    test_samples: int | None = Field(None, ge=1)
    """Keep at most so many test samples per task."""
    surrogate: SurrogateSettings | None = None
    """The unlabelled images that CFeD distils on: in the paper CIFAR-100 for CIFAR-10, and CIFAR-10 for CIFAR-100."""

    @model_validator(mode="after")
    def _fitting_scope(self) -> "StreamSettings":
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
        return self
