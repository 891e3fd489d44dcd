"""A sequence of tasks as the clients of a federation live through it, round by round."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.seeding import derive_generator
from fedagem.tasks.partition import by_classes, by_dirichlet
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.sources import Labelled, Source, load_source
from fedagem.tasks.tasks import PermutedTasks, RotatedTasks, SequentialTasks, Tasks


class TaskStream:
    """All tasks for all clients; the data set is held once."""

    def __init__(self, settings: StreamSettings, source: Source | None = None) -> None:
        self.settings = settings
        self.source = source or load_source(settings.dataset, settings.root, settings.dataset_settings)
        self.tasks = self._make_tasks()
        self._shares = self._deal()
        self._test_members = [self._choose_test_samples(task) for task in range(self.tasks.count)]

    def client(self, rank: int) -> "ClientStream":
        """The stream of one client."""
        if not 0 <= rank < self.settings.clients:
            raise PlanError(
                f"client rank {rank} is not in 0..{self.settings.clients - 1} (data_loader.settings.clients)."
            )
        return ClientStream(self, rank)

    def share(self, rank: int, task: int) -> Tensor:
        """The positions of a client's training samples of a task within the data set."""
        return self._shares[task][rank]

    def test_members(self, task: int) -> Tensor:
        """The positions of a task's test samples within the data set."""
        return self._test_members[task]

    def _make_tasks(self) -> Tasks:
        wanted, classes, seed = self.settings.tasks, self.source.classes, self.settings.seed
        if wanted.kind == "rotated":
            return RotatedTasks(wanted.count, classes, seed, wanted.max_angle)
        if wanted.kind == "permuted":
            return PermutedTasks(wanted.count, classes, seed)
        return SequentialTasks(wanted.count, classes, wanted.curriculum)

    def _deal(self) -> list[list[Tensor]]:
        """For every task every client's samples: from its share of the whole data set, or of the task's data alone."""
        settings, labels = self.settings, self.source.train.y
        members = [_having(labels, self.tasks.classes_of(task)) for task in range(self.tasks.count)]
        if settings.partition.scope == "dataset":
            whole = self._partition(labels, settings.clients, derive_generator(settings.seed, "partition"))
            dealt = [[part[torch.isin(part, of_task)] for part in whole] for of_task in members]
        else:
            dealt = [self._deal_task(task, of_task) for task, of_task in enumerate(members)]
        limits = [self._limits([len(shares[rank]) for shares in dealt]) for rank in range(settings.clients)]
        return [
            [self._limited(share, limits[rank][task], rank) for rank, share in enumerate(shares)]
            for task, shares in enumerate(dealt)
        ]

    def _limits(self, sizes: list[int]) -> list[int]:
        """How many samples of each task a client keeps of those it was dealt.

        If clients go at their own pace, all of a client's tasks shrink alike: one cap for all would make them
        equally long, and the clients would reach every boundary together.
        """
        limit, dealt = self.settings.samples_per_client, sum(sizes)
        if limit is None or not dealt:
            return sizes
        if self.settings.asynchronous_samples is None:
            return [limit] * len(sizes)
        return [min(size, math.ceil(size * limit * len(sizes) / dealt)) for size in sizes]

    def _deal_task(self, task: int, members: Tensor) -> list[Tensor]:
        """The task's samples spread over the clients who are there; the others get none."""
        settings = self.settings
        present = settings.arrivals.present(task, settings.clients) if settings.arrivals else settings.clients
        generator = derive_generator(settings.seed, "partition", task)
        parts = self._partition(self.source.train.y[members], present, generator)
        return [members[part] for part in parts] + [members[:0]] * (settings.clients - present)

    def _partition(self, labels: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        partition = self.settings.partition
        if partition.kind == "classes":
            return by_classes(labels, clients, partition.classes_per_client, generator)
        return by_dirichlet(labels, clients, partition.alpha, generator)

    def _choose_test_samples(self, task: int) -> Tensor:
        members = _having(self.source.test.y, self.tasks.classes_of(task))
        return self._limited(members, self.settings.test_samples, "test")

    def _limited(self, members: Tensor, limit: int | None, use: str | int) -> Tensor:
        """At most `limit` of the samples, drawn by the seed; the same samples give the same draw in every task."""
        if limit is None or len(members) <= limit:
            return members
        order = torch.randperm(len(members), generator=derive_generator(self.settings.seed, "subset", use))
        return members[order[:limit].sort().values]


class ClientStream:
    """What one client trains on in each round, and its part of every task's test data."""

    def __init__(self, stream: TaskStream, rank: int) -> None:
        self.stream = stream
        self.rank = rank
        self._cached: tuple[int, Labelled] | None = None

    def train_batches(self, round_number: int) -> Iterator[Batch]:
        """E epochs over the client's data of the round, shuffled by the plan's seed; nothing if there is none."""
        settings = self.stream.settings
        data = self._data_of(round_number // settings.rounds_per_task)
        if not len(data):
            return
        for epoch in range(settings.epochs):
            generator = derive_generator(settings.seed, "order", self.rank, round_number, epoch)
            for chosen in torch.randperm(len(data), generator=generator).split(settings.batch_size):
                part = data[chosen]
                yield {"x": part.x, "y": part.y}

    def test_sets(self) -> Iterator[Labelled]:
        """This client's part of the test data of every task; the parts of all clients make the whole."""
        for task in range(self.stream.tasks.count):
            members = self.stream.test_members(task)[self.rank :: self.stream.settings.clients]
            part = self.stream.source.test[members]
            yield Labelled(self.stream.tasks.inputs(part.x, task), part.y)

    def samples_of(self, period: int) -> list[tuple[int, Tensor]]:
        """What belongs to a period of `rounds_per_task` rounds, as (task, positions in the data set).

        With synchronous boundaries a period is a task. Without them a client works through its tasks at its own
        pace, so a period holds the next `asynchronous_samples` of its own sequence, of whatever tasks they are.
        """
        pace = self.stream.settings.asynchronous_samples
        if pace is None:
            return [(period, self.stream.share(self.rank, period))]
        pieces, begin, end = [], period * pace, (period + 1) * pace
        for task in range(self.stream.tasks.count):
            share = self.stream.share(self.rank, task)
            generator = derive_generator(self.stream.settings.seed, "arrival", self.rank, task)
            share = share[torch.randperm(len(share), generator=generator)]
            piece = share[max(begin, 0) : max(end, 0)]
            if len(piece):
                pieces.append((task, piece))
            begin, end = begin - len(share), end - len(share)
        return pieces

    def _data_of(self, period: int) -> Labelled:
        if self._cached is None or self._cached[0] != period:
            train, tasks = self.stream.source.train, self.stream.tasks
            pieces = self.samples_of(period) or [(0, torch.zeros(0, dtype=torch.int64))]
            x = [tasks.inputs(train.x[members], task) for task, members in pieces]
            y = [train.y[members] for _, members in pieces]
            self._cached = (period, Labelled(torch.cat(x), torch.cat(y)))
        return self._cached[1]


def _having(labels: Tensor, classes: range) -> Tensor:
    """The positions of the samples of some classes."""
    return torch.nonzero(torch.isin(labels, torch.tensor(classes))).squeeze(1)
