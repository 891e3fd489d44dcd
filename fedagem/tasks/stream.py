"""A sequence of tasks as the clients of a federation live through it, round by round."""

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from fedagem.errors import DataError, PlanError
from fedagem.learning.buffer import FIRST, Batch
from fedagem.seeding import derive_generator
from fedagem.tasks.partition import by_classes, by_dirichlet, by_dirichlet_over_clients
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.sources import Labelled, Source, load_source
from fedagem.tasks.tasks import PermutedTasks, RotatedTasks, SequentialTasks, Tasks

_CLIENTS_IN_MEMORY = 64
"""Of how many clients the shares are remembered; those of others are found again when they are asked for."""


class TaskStream:
    """All tasks for all clients; the data set is held once."""

    def __init__(self, settings: StreamSettings, source: Source | None = None) -> None:
        self.settings = settings
        self.source = source or load_source(settings.dataset, settings.root, settings.dataset_settings)
        self.tasks = self._make_tasks()
        self._dealt = self._deal()
        self._shares = lru_cache(_CLIENTS_IN_MEMORY)(self._make_shares)
        self._test_members = [self._choose_test_samples(task) for task in range(self.tasks.count)]

    def client(self, rank: int) -> "ClientStream":
        """The stream of one client."""
        if not 0 <= rank < self.settings.clients:
            raise PlanError(
                f"client rank {rank} is not in 0..{self.settings.clients - 1} (data_loader.settings.clients)."
            )
        return ClientStream(self, rank)

    def task_of(self, round_number: int) -> int:
        """The task, or the period of asynchronous clients, that a round belongs to."""
        return round_number // self.settings.rounds_per_task

    def share(self, rank: int, task: int) -> Tensor:
        """The positions of a client's training samples of a task within the data set."""
        return self._shares(rank)[task]

    def test_members(self, task: int) -> Tensor:
        """The positions of a task's test samples within the data set."""
        return self._test_members[task]

    @cached_property
    def surrogate(self) -> Tensor | None:
        """The plan's unlabelled images, read when they are first asked for; they must look like those of the tasks."""
        wanted = self.settings.surrogate
        if wanted is None:
            return None
        images = load_source(wanted.dataset, wanted.root, wanted.dataset_settings).train.x
        own = self.source.train.x
        if (images.shape[1:], images.dtype) != (own.shape[1:], own.dtype):
            raise DataError(
                f"data_loader.settings.surrogate ({wanted.dataset}) has samples of shape {tuple(images.shape[1:])}, "
                f"but {self.settings.dataset} has {tuple(own.shape[1:])}: use a data set with samples of that shape."
            )
        return images

    def _make_tasks(self) -> Tasks:
        wanted, classes, seed = self.settings.tasks, self.source.classes, self.settings.seed
        if wanted.kind == "rotated":
            return RotatedTasks(wanted.count, classes, seed, wanted.max_angle)
        if wanted.kind == "permuted":
            return PermutedTasks(wanted.count, classes, seed)
        return SequentialTasks(wanted.count, classes, wanted.curriculum)

    def _deal(self) -> list[list[Tensor]]:
        """Every client's share of the whole data set; or, if the data of each task is dealt alone, of every task's."""
        settings, labels = self.settings, self.source.train.y
        if settings.partition.scope == "dataset":
            return [self._partition(labels, settings.clients, derive_generator(settings.seed, "partition"))]
        tasks = range(self.tasks.count)
        return [self._deal_task(task, _having(labels, self.tasks.classes_of(task))) for task in tasks]

    def _make_shares(self, rank: int) -> list[Tensor]:
        """A client's samples of every task, of those it was dealt."""
        labels = self.source.train.y
        if self.settings.partition.scope == "dataset":
            dealt, classes = self._dealt[0][rank], map(self.tasks.classes_of, range(self.tasks.count))
            shares = [dealt[_having(labels[dealt], of_task)] for of_task in classes]
        else:
            shares = [of_task[rank] for of_task in self._dealt]
        limits = self._limits([len(share) for share in shares])
        return [self._limited(share, limit, rank) for share, limit in zip(shares, limits, strict=True)]

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
        deal = by_dirichlet if partition.kind == "dirichlet" else by_dirichlet_over_clients
        return deal(labels, clients, partition.alpha, generator)

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

    def train_batches(self, round_number: int, missed: int = 0) -> Iterator[Batch]:
        """E epochs over the client's data of the round, shuffled by the plan's seed; nothing if there is none.

        `first` says of each sample whether the client is given it for the first time: in the first epoch of its first
        round in the task (or in the period, if boundaries are asynchronous). `missed` is how many rounds directly
        before this one it did not train in.
        """
        settings = self.stream.settings
        period, round_of_period = divmod(round_number, settings.rounds_per_task)
        data = self._data_of(period)
        if not len(data):
            return
        for epoch in range(settings.epochs):
            generator = derive_generator(settings.seed, "order", self.rank, round_number, epoch)
            for chosen in torch.randperm(len(data), generator=generator).split(settings.batch_size):
                part = data[chosen]
                first = torch.full((len(part),), round_of_period <= missed and epoch == 0)
                yield {"x": part.x, "y": part.y, FIRST: first}

    def surrogate(self) -> Batch | None:
        """This client's share of the unlabelled images, dealt at random; None if the plan has none."""
        images, settings = self.stream.surrogate, self.stream.settings
        if images is None:
            return None
        order = torch.randperm(len(images), generator=derive_generator(settings.seed, "surrogate"))
        return {"x": images[order[self.rank :: settings.clients]]}

    def task_samples(self, period: int) -> Batch:
        """All that the client trains on in a task, or in a period if boundaries are asynchronous."""
        data = self._data_of(period)
        return {"x": data.x, "y": data.y}

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
