"""OpenFL data loaders: which stream a collaborator learns from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openfl.federated.data.loader import DataLoader

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.learner import CurrentTask, Learner, LocalData, Place
from fedagem.learning.methods.method import Method
from fedagem.settings import parse_settings
from fedagem.tasks.accuracy import Evaluation, count_correct
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.stream import ClientStream, TaskStream


class TaskStreamLoader(DataLoader):  # type: ignore[misc]
    """A client of a benchmark's task stream; the data path of plan/data.yaml is the client's rank.

    Without a data path (when the plan is initialised) no data is loaded.
    """

    def __init__(self, data_path: str | None, **settings: Any) -> None:
        self.settings = parse_settings(StreamSettings, settings, "data_loader.settings")
        self.seed = self.settings.seed
        self.stream: TaskStream | None = None
        self._client: ClientStream | None = None
        if data_path is not None:
            self.stream = TaskStream(self.settings)
            self._client = self.stream.client(_rank(data_path))

    def for_client(self, data_path: str) -> "TaskStreamLoader":
        """Another client of the same stream, without loading the data again."""
        assert self.stream is not None
        other = TaskStreamLoader.__new__(TaskStreamLoader)
        other.settings, other.seed, other.stream = self.settings, self.seed, self.stream
        other._client = self.stream.client(_rank(data_path))
        return other

    @property
    def client(self) -> ClientStream:
        """The stream of this collaborator."""
        assert self._client is not None, "the plan is being initialised: there is no data yet"
        return self._client

    def train_batches(self, round_number: int) -> Iterator[Batch]:
        """What this collaborator learns from in a round."""
        return self.client.train_batches(round_number)

    def evaluate(self, learner: Learner, method: Method) -> Evaluation:
        """This collaborator's part of the accuracy on all tasks."""
        learner.model.module.eval()
        tasks = self.client.stream.tasks
        return count_correct(
            lambda batch: method.scores(learner, learner.to_device(batch)),
            self.client.test_sets(),
            tasks,
            method.scenarios,
        )

    def task(self, round_number: int) -> CurrentTask:
        """What a method that needs boundaries is told of the round's task."""
        stream, index = self.client.stream, self.client.stream.task_of(round_number)
        before = [label for task in range(index) for label in stream.tasks.classes_of(task)]
        sequential = stream.tasks.sequential
        return CurrentTask(
            index, stream.tasks.classes_of(index), tuple(sorted(before)) if sequential else (), sequential
        )

    def beginning_of_task(self, round_number: int) -> int:
        """The first round of the task that the round belongs to."""
        return round_number - round_number % self.settings.rounds_per_task

    def place(self, round_number: int) -> Place:
        """Which client this is."""
        return Place(self.client.rank, self.settings.clients, round_number, self.seed)

    def local_data(self, round_number: int) -> LocalData:
        """This collaborator's samples of the round's task, and its share of the surrogate set."""
        return TaskData(self.client, self.client.stream.task_of(round_number))

    def describe_buffer(self, contents: Batch) -> dict[str, float]:
        """Nothing to tell beyond its size: a benchmark's samples do not say which task they come from."""
        return {}

    def get_feature_shape(self) -> None:
        """Models take their shape from the plan, not from the data."""


@dataclass(frozen=True)
class TaskData:
    """A client's samples of a task, for methods that look at them again."""

    client: ClientStream
    task: int

    def samples(self) -> Batch:
        """What the client trains on in every round of the task."""
        return self.client.task_samples(self.task)

    def surrogate(self) -> Batch | None:
        """The client's share of the surrogate set."""
        return self.client.surrogate()


def _rank(data_path: str) -> int:
    if not str(data_path).strip().isdecimal():
        raise PlanError(
            f"plan/data.yaml gives {data_path!r} as data path, but this loader takes a client's rank (0, 1, ...)."
        )
    return int(data_path)
