"""A federation in memory, without OpenFL: the hooks of a method in the order in which a round calls them.

The data is scikit-learn's digits, two classes per task. Clients keep their state between rounds as in a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import UpdateReport, client_update
from fedagem.learning.exchange import StageName
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import CurrentTask, Learner, Place
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification
from fedagem.seeding import derive_generator
from fedagem.settings import parse_settings
from fedagem.tasks.accuracy import count_correct
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.sources import Source
from fedagem.tasks.sources.digits import digits
from fedagem.tasks.stream import TaskStream


def small_network(classes: int = 10, side: int = 28) -> nn.Sequential:
    """A network that learns the digits in a few rounds."""
    return nn.Sequential(nn.Flatten(), nn.Linear(side * side, 50), nn.ReLU(), nn.Linear(50, classes))


@cache
def digits_source() -> tuple[Source, Tensor]:
    """Two thirds of the digits with labels; the others without, as a surrogate set."""
    source = digits(Path())
    surrogate = torch.arange(len(source.train)) % 3 == 0
    return Source(source.train[~surrogate], source.test, source.classes), source.train.x[surrogate]


@dataclass(frozen=True)
class TaskData:
    """A client's samples of a task, and its share of the surrogate set."""

    task: Batch
    unlabelled: Batch | None

    def samples(self) -> Batch:
        return self.task

    def surrogate(self) -> Batch | None:
        return self.unlabelled


@dataclass
class SmallFederation:
    """Runs rounds one by one; `client` makes the learner of a client as a round begins."""

    method: Method
    clients: int = 4
    rounds_per_task: int = 4
    lr: float = 0.1
    capacity: int = 100
    seed: int = 0
    reports: list[UpdateReport] = field(default_factory=list)
    previous: list[Mapping[str, Any] | None] = field(default_factory=list)
    """The teacher of each round so far."""

    def __post_init__(self) -> None:
        source, self._unlabelled = digits_source()
        settings = {
            "seed": self.seed,
            "dataset": "digits",
            "tasks": {"kind": "sequential", "count": 5},
            "partition": {"kind": "dirichlet", "alpha": 1.0, "scope": "task"},
            "clients": self.clients,
            "rounds_per_task": self.rounds_per_task,
            "epochs": 2,
        }
        self.stream = TaskStream(parse_settings(StreamSettings, settings, "data_loader.settings"), source)
        torch.manual_seed(self.seed)
        self.model = FlatModel(small_network())
        self.objective = Classification()
        self.server = self.method.server_side(self.method.exchanges(self.model))
        self.states: list[tuple[ReplayBuffer, dict[str, Any]]] = [
            (ReplayBuffer(self.capacity), {}) for _ in range(self.clients)
        ]
        self.weights = self._arrays()
        self.round = 0

    def run(self, tasks: int = 5) -> "SmallFederation":
        """All rounds of some more tasks."""
        for _ in range(tasks * self.rounds_per_task):
            self.step()
        return self

    def step(self) -> None:
        """One round, with the end of the task if it is the last one."""
        self.previous.append(self.server.previous_model())
        received: dict[str, Tensor] = {}
        published = [self.method.buffer_gradient(self.client(rank, "buffer_gradient")) for rank in range(self.clients)]
        if given := [one for one in published if one is not None]:
            received = {name: torch.stack([one[name] for one in given]).mean(dim=0) for name in given[0]}
        trained, sent, self.reports = [], [], []
        for rank in range(self.clients):
            learner = self.client(rank, "train", received)
            batches = self.stream.client(rank).train_batches(self.round)
            optimizer = torch.optim.SGD([self.model.weights], lr=self.lr)
            self.reports.append(client_update(learner, batches, self.method, optimizer))
            trained.append(self._arrays())
            sent.append(self.reports[-1].published)
        averaged = {name: np.mean([one[name] for one in trained], axis=0) for name in trained[0]}
        self.weights = dict(self.server.step(self.weights, averaged))
        self._take("train", sent)
        if (self.round + 1) % self.rounds_per_task == 0:
            self._take(
                "end_task", [self.method.end_task(self.client(rank, "end_task")) for rank in range(self.clients)]
            )
            self.server.end_task(self.weights)
        self.round += 1

    def accuracy(self, scenario: str = "class_il") -> float:
        """The mean over all tasks."""
        learner = self.client(0, "evaluate", round_number=self.round - 1)
        self.model.module.eval()
        tasks = self.stream.tasks
        sets = [self.stream.source.test[self.stream.test_members(task)] for task in range(tasks.count)]
        counted = count_correct(lambda batch: self.method.scores(learner, batch), sets, tasks).ratios[scenario]
        return float((counted[:, 0] / counted[:, 1]).mean())

    def client(
        self, rank: int, use: Any, received: Mapping[str, Tensor] | None = None, round_number: int | None = None
    ) -> Learner:
        """A client at the beginning of a stage, with the global model."""
        number = self.round if round_number is None else round_number
        buffer, kept = self.states[rank]
        self.model.load_arrays(self.weights)
        offered = {name: torch.from_numpy(array) for name, array in self.server.offers().items()}
        everything = {**offered, **(received or {})}
        previous = self.server.previous_model() if use == "train" and self.method.needs_previous_model else None
        task = self.stream.task_of(number)
        unlabelled = {"x": self._unlabelled[rank :: self.clients]}
        return Learner(
            self.model,
            self.objective,
            buffer,
            derive_generator(self.seed, rank, number, use),
            kept=kept,
            received={name: everything[name] for name in self.method.wants(use) if name in everything},
            task=self._task(task),
            teacher=self._teacher(previous),
            data=TaskData(self.stream.client(rank).task_samples(task), unlabelled),
            place=Place(rank, self.clients, number, self.seed),
        )

    def _task(self, index: int) -> CurrentTask | None:
        if not self.method.needs_boundaries:
            return None
        tasks = self.stream.tasks
        earlier = [label for task in range(index) for label in tasks.classes_of(task)]
        return CurrentTask(index, tasks.classes_of(index), tuple(earlier), sequential=True)

    def _teacher(self, arrays: Mapping[str, Any] | None) -> nn.Module | None:
        if arrays is None:
            return None
        teacher = small_network()
        teacher.load_state_dict({name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()})
        return teacher.requires_grad_(False).eval()

    def _take(self, stage: StageName, sent: list[dict[str, Tensor]]) -> None:
        combined = {name: np.sum([one[name].numpy() for one in sent], axis=0) for name in sent[0]}
        self.server.take(stage, combined)

    def _arrays(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in self.model.arrays().items()}
