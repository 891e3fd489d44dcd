"""Clients and a server without OpenFL: what a method does over several tasks, in a second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from fedagem.aggregation.ring import Accumulator, Encoding
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import CurrentTask, Learner, Place
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification
from fedagem.learning.server_side import Array
from fedagem.seeding import derive_generator
from fedagem.tasks.sources import Labelled, load_source
from fedagem.tasks.tasks import PermutedTasks


@dataclass
class TaskData:
    """A client's samples of a task."""

    batch: Batch

    def samples(self) -> Batch:
        return self.batch

    def surrogate(self) -> Batch | None:
        return None


@dataclass
class SmallFederation:
    """A network that clients train in turns; `begin_task` says what each of them has."""

    method: Method
    network: nn.Module
    lr: float = 0.1
    batch_size: int = 16
    capacity: int = 0
    round_number: int = 0
    kept: list[dict[str, Any]] = field(default_factory=list)
    buffers: list[ReplayBuffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.set_num_threads(1)  # as in a trainer; threads that wait for each other take minutes on a busy machine
        self.model = FlatModel(self.network)
        self.exchanges = {exchange.name: exchange for exchange in self.method.exchanges(self.model)}
        self.server: Any = self.method.server_side(list(self.exchanges.values()))
        self.weights = {name: array.copy() for name, array in self.model.arrays().items()}

    def begin_task(self, task: CurrentTask, samples: Sequence[Batch]) -> None:
        """The clients' samples of a task, one batch for each."""
        self.task, self.samples = task, samples
        self.kept = self.kept or [{} for _ in samples]
        self.buffers = self.buffers or [ReplayBuffer(self.capacity) for _ in samples]

    def learner(self, rank: int, use: str, received: Mapping[str, Array] | None = None) -> Learner:
        """A client at the global model."""
        self.model.load_arrays(self.weights)
        return Learner(
            self.model,
            Classification(),
            self.buffers[rank],
            derive_generator(0, rank, self.round_number, use),
            kept=self.kept[rank],
            received={name: torch.from_numpy(array) for name, array in (received or {}).items()},
            task=self.task,
            data=TaskData(self.samples[rank]),
            place=Place(rank, len(self.samples), self.round_number),
        )

    def round(self, ranks: Sequence[int] | None = None) -> None:
        """All clients compute their buffer gradients and train, in the order of `ranks`."""
        ranks = range(len(self.samples)) if ranks is None else ranks
        given = {rank: self.method.buffer_gradient(self.learner(rank, "buffer gradient")) for rank in ranks}
        published = [tensors for tensors in given.values() if tensors is not None]
        received = {name: array / len(published) for name, array in self.added(published).items()}
        trained = []
        for rank in ranks:
            learner = self.learner(rank, "train", received)
            torch.manual_seed(rank)
            order = torch.randperm(len(self.samples[rank]["x"]), generator=learner.generator)
            batches = [
                {name: values[part] for name, values in self.samples[rank].items()}
                for part in order.split(self.batch_size)
            ]
            client_update(learner, batches, self.method, torch.optim.SGD([self.model.weights], lr=self.lr))
            trained.append({name: array.copy() for name, array in self.model.arrays().items()})
        averaged = {name: self._average(name, [model[name] for model in trained]) for name in self.weights}
        self.weights = dict(self.server.step(self.weights, averaged))
        self.round_number += 1

    def end_task(self, ranks: Sequence[int] | None = None) -> None:
        """What the method does between two tasks."""
        ranks = range(len(self.samples)) if ranks is None else ranks
        published = [self.method.end_task(self.learner(rank, "end task")) for rank in ranks]
        self.server.take("end_task", self.added(published))
        self.server.end_task(self.weights)

    def added(self, published: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, Array]:
        """What the clients' tensors add up to, by the arithmetic of the aggregator."""
        sums: dict[str, Array] = {}
        for name in published[0] if published else ():
            encoding = Encoding.of(np.float32, self.exchanges[name].bound, len(published))
            total = Accumulator(self.exchanges[name].shape, np.float32, encoding)
            for tensors in published:
                total.add(tensors[name].numpy())
            sums[name] = total.decode()
        return sums

    def _average(self, name: str, arrays: Sequence[Array]) -> Array:
        old = self.weights[name]
        total = Accumulator(old.shape, old.dtype, Encoding.of(old.dtype, 1024.0, len(arrays)), reference=old)
        for array in arrays:
            total.add(array)
        return total.decode(len(arrays))

    @torch.no_grad()
    def accuracy(self, samples: Batch) -> float:
        """The share of right answers of the global model."""
        self.model.load_arrays(self.weights)
        self.model.module.eval()
        return float((self.model.module(samples["x"]).argmax(dim=1) == samples["y"]).float().mean())


def permuted_digits(count: int, clients: int) -> tuple[list[list[Batch]], list[Batch]]:
    """For each task every client's samples, 719 in all and different digits for each, and the task's test samples."""
    source, tasks = load_source("digits"), PermutedTasks(count, 10, seed=0)
    train, test = source.train[slice(None, None, 2)], source.test
    share = train.y * clients // 10

    def batch(data: Labelled, task: int) -> Batch:
        small = torch.nn.functional.adaptive_avg_pool2d(data.x.float() / 255, 8)
        return {"x": tasks.inputs(small, task).flatten(1), "y": data.y}

    dealt = [
        [batch(train[torch.nonzero(share == rank)[:, 0]], task) for rank in range(clients)] for task in range(count)
    ]
    return dealt, [batch(test, task) for task in range(count)]


def learn_permuted_digits(method: Method, clients: int, rounds: int) -> list[float]:
    """The accuracies on three permutations, after the last of them."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    federation = SmallFederation(method, network)
    train, test = permuted_digits(3, clients)
    for index, samples in enumerate(train):
        federation.begin_task(CurrentTask(index, range(10), (), sequential=False), samples)
        for _ in range(rounds):
            federation.round()
        federation.end_task()
    return [federation.accuracy(samples) for samples in test]
