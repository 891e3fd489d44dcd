"""A sequence of tasks as the clients of a federation live through it, round by round."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch

from fedagem.buffer import Batch
from fedagem.errors import PlanError
from fedagem.seeding import derive_generator
from fedagem.streams.partition import by_classes, by_dirichlet
from fedagem.streams.sources import Labelled, Source, load_source
from fedagem.streams.tasks import PermutedTasks, RotatedTasks, Tasks


@dataclass(frozen=True)
class TaskSettings:
    """How the tasks differ."""

    kind: Literal["rotated", "permuted"]
    count: int
    max_angle: float = 180.0


@dataclass(frozen=True)
class PartitionSettings:
    """How the samples are spread over the clients."""

    kind: Literal["classes", "dirichlet"] = "classes"
    classes_per_client: int = 2
    alpha: float = 0.3


@dataclass(frozen=True)
class StreamSettings:
    """The `data_loader.settings` of a benchmark plan."""

    seed: int
    dataset: str
    tasks: TaskSettings
    clients: int
    rounds_per_task: int
    root: str | None = None
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    epochs: int = 1
    batch_size: int = 32

    def __post_init__(self) -> None:
        for name in ("clients", "rounds_per_task", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise PlanError(f"data_loader.settings.{name} must be at least 1, not {getattr(self, name)}.")
        if self.tasks.count < 1:
            raise PlanError(f"data_loader.settings.tasks.count must be at least 1, not {self.tasks.count}.")


class TaskStream:
    """All tasks for all clients; the data set is held once."""

    def __init__(self, settings: StreamSettings, source: Source | None = None) -> None:
        self.settings = settings
        self.source = source or load_source(settings.dataset, settings.root)
        self.tasks = self._make_tasks()
        self._shares = self._partition()

    def client(self, rank: int) -> "ClientStream":
        """The stream of one client."""
        if not 0 <= rank < self.settings.clients:
            raise PlanError(
                f"client rank {rank} is not in 0..{self.settings.clients - 1} (data_loader.settings.clients)."
            )
        return ClientStream(self, rank)

    def share(self, rank: int) -> Labelled:
        """A client's training samples, before a task changes their inputs."""
        return self.source.train[self._shares[rank]]

    def _make_tasks(self) -> Tasks:
        kind, count, seed = self.settings.tasks.kind, self.settings.tasks.count, self.settings.seed
        if kind == "rotated":
            return RotatedTasks(count, self.source.classes, seed, self.settings.tasks.max_angle)
        return PermutedTasks(count, self.source.classes, seed)

    def _partition(self) -> list[torch.Tensor]:
        partition, clients = self.settings.partition, self.settings.clients
        labels = self.source.train.y
        generator = derive_generator(self.settings.seed, "partition")
        if partition.kind == "classes":
            return by_classes(labels, clients, partition.classes_per_client, generator)
        return by_dirichlet(labels, clients, partition.alpha, generator)


class ClientStream:
    """What one client trains on in each round, and its part of every task's test data."""

    def __init__(self, stream: TaskStream, rank: int) -> None:
        self.stream = stream
        self.rank = rank
        self._cached_task: tuple[int, Labelled] | None = None

    def task_of(self, round_number: int) -> int:
        """Which task a round belongs to."""
        return round_number // self.stream.settings.rounds_per_task

    def train_batches(self, round_number: int) -> Iterator[Batch]:
        """E epochs over the client's data of the round's task, shuffled by the plan's seed."""
        settings = self.stream.settings
        data = self._train_data(self.task_of(round_number))
        for epoch in range(settings.epochs):
            generator = derive_generator(settings.seed, "order", self.rank, round_number, epoch)
            for chosen in torch.randperm(len(data), generator=generator).split(settings.batch_size):
                part = data[chosen]
                yield {"x": part.x, "y": part.y}

    def test_sets(self) -> Iterator[Labelled]:
        """This client's part of the test data of every task; the parts of all clients make the whole."""
        tasks, test = self.stream.tasks, self.stream.source.test
        for task in range(tasks.count):
            classes = torch.tensor(tasks.classes_of(task))
            members = torch.nonzero(torch.isin(test.y, classes)).squeeze(1)
            part = test[members[self.rank :: self.stream.settings.clients]]
            yield Labelled(tasks.inputs(part.x, task), part.y)

    def _train_data(self, task: int) -> Labelled:
        if self._cached_task is None or self._cached_task[0] != task:
            share = self.stream.share(self.rank)
            keep = torch.isin(share.y, torch.tensor(self.stream.tasks.classes_of(task)))
            share = share[torch.nonzero(keep).squeeze(1)]
            self._cached_task = (task, Labelled(self.stream.tasks.inputs(share.x, task), share.y))
        return self._cached_task[1]
