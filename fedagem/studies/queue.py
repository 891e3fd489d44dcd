"""Runs in a shared folder, to be completed by workers on any number of machines.

    FOLDER/queue.json               what workers must know and be
    FOLDER/queue/RUN/job.json       a run to be done; it names its plans, which are beside it: the one that was asked
                                    for, and the one to be followed
    FOLDER/queue/RUN/attempt-1      who has taken it, and how that ended; taking it again is attempt-2
    FOLDER/queue/.workers/NAME      a worker's sign of life
    FOLDER/RUN/                     the run itself, an ordinary folder of a run

A run is finished when its results are there, whoever has made them. It is taken by creating its next attempt, which
only one worker can do. So nothing is ever renamed, locked or compared with a clock.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fedagem.errors import FedAGemError
from fedagem.files import write_file
from fedagem.learning import LEARNING_VERSION
from fedagem.plans.plan import Plan
from fedagem.runs.live.run_watch import RunWatch
from fedagem.runs.many_runs import Job
from fedagem.runs.results import rounds_in_results
from fedagem.settings import Settings, parse_settings
from fedagem.studies.leases import RENEWALS, Lookout, create_once

MOST_IN_VAIN = 3
"""Attempts in a row that did not complete a round, after which a run counts as failed."""

End = Literal["finished", "failed", "released", "killed", "retry"]
"""How an attempt ended: `released` by a worker that was stopped in good order, `killed` if a signal ended the run's
processes or time ran out, `retry` if it only says that a failed run is to be tried again."""


class QueueSettings(Settings):
    """The content of queue.json."""

    learning_version: int = LEARNING_VERSION
    """The version of the code that learns, which must be the same on all machines."""
    lease_seconds: float = Field(60.0, gt=0)
    """How long a worker may give no sign of life before others go on with its runs."""


@dataclass(frozen=True)
class Attempt:
    """A worker's attempt to complete a run."""

    number: int
    worker: str
    rounds: int
    """How many rounds were over when it began."""
    end: End | None = None
    """None while it is under way, and for ever if its worker has died."""
    sentence: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class QueuedRun:
    """A run of a queue, which never changes, and its attempts."""

    name: str
    """The folder of the run within that of the queue."""
    number: int
    """Its place in the order of the runs."""
    title: str
    plan: str
    """The name of the plan."""
    requested: str
    """The digest of the plan that was asked for."""
    followed: str
    """The digest of the plan to be followed."""
    rounds: int
    """How many make a finished run."""
    federated: bool
    workers: int
    directory: Path
    """The folder of the run."""
    folder: Path
    """Where the queue keeps what it knows of the run."""

    @property
    def finished(self) -> bool:
        """Whether the results of all its rounds are there."""
        return rounds_in_results(self.directory) >= self.rounds

    @cached_property
    def job(self) -> Job:
        """The run as work to be done; its plans are read when they are needed, because that takes a while."""
        requested = Plan.of_run(_plan_file(self.folder, self.requested), self.plan)
        followed = Plan.of_run(_plan_file(self.folder, self.followed), self.plan)
        return Job(self.title, requested, followed, self.directory, self.federated, self.workers)

    def attempts(self) -> list[Attempt]:
        """All attempts, the latest last."""
        paths = self.folder.glob("attempt-*")
        found = [Attempt(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]
        return sorted(found, key=lambda attempt: attempt.number)

    def begin(self, before: Sequence[Attempt], worker: str) -> Attempt | None:
        """Take the run after the attempts that were seen; None if somebody else was faster."""
        return self._append(Attempt(len(before) + 1, worker, self.rounds_done()))

    def retry(self, before: Sequence[Attempt]) -> bool:
        """Set a run free whose last attempt has failed."""
        return self._append(Attempt(len(before) + 1, "", self.rounds_done(), end="retry")) is not None

    def end(self, attempt: Attempt, how: End, sentence: str = "") -> None:
        """Write down how an attempt of this worker ended."""
        write_file(self._path(attempt), json.dumps(asdict(replace(attempt, end=how, sentence=sentence))))

    def rounds_done(self) -> int:
        """How many rounds of the run are over."""
        watch = RunWatch(self.directory)
        watch.look()
        return watch.rounds

    def _append(self, attempt: Attempt) -> Attempt | None:
        return attempt if create_once(self._path(attempt), json.dumps(asdict(attempt))) else None

    def _path(self, attempt: Attempt) -> Path:
        return self.folder / f"attempt-{attempt.number}"


def in_vain(attempts: Sequence[Attempt], rounds: int) -> bool:
    """Whether the latest attempts all ended, by a kill or a death, without completing a single round."""
    latest = attempts[-MOST_IN_VAIN:]
    return len(latest) == MOST_IN_VAIN and all(
        attempt.end in {None, "killed"} and attempt.rounds == rounds for attempt in latest
    )


class Queue:
    """The queue of a folder."""

    def __init__(self, folder: Path, settings: QueueSettings) -> None:
        self.folder = folder
        self.settings = settings
        self._runs: dict[Path, QueuedRun] = {}

    @classmethod
    def create(cls, folder: Path) -> "Queue":
        """The queue of a folder, new or made before; refuses one of another version of the learning code."""
        if folder.exists() and not folder.is_dir():
            raise FedAGemError(f"{folder} is a file: name a folder for the queue.")
        create_once(folder / "queue.json", json.dumps(QueueSettings().model_dump(), indent=2))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> "Queue":
        """The queue of a folder; refuses a folder that has none, or one of another version of the learning code."""
        path = folder / "queue.json"
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise FedAGemError(
                f"{folder} is no queue, there is no queue.json in it: make one with `fedagem reproduce STUDY --queue "
                f"{folder}` or `fedagem compare PLAN --queue {folder}`."
            ) from None
        except (ValueError, OSError) as problem:
            raise FedAGemError(f"{path} cannot be read: {problem}.") from problem
        settings = parse_settings(QueueSettings, content, str(path))
        if settings.learning_version != LEARNING_VERSION:
            raise FedAGemError(
                f"{folder} was made for version {settings.learning_version} of the code that learns, and this is "
                f"version {LEARNING_VERSION}: use the same fedagem on all machines, or another folder."
            )
        return cls(folder.resolve(), settings)

    def add(self, jobs: Sequence[Job]) -> list[QueuedRun]:
        """Lay out runs that are not there yet; refuses a run of other settings under the same name."""
        return [self._add(number, job) for number, job in enumerate(jobs)]

    def runs(self) -> list[QueuedRun]:
        """All runs, in the order in which they were asked for."""
        for path in self._place.rglob("job.json"):
            if path not in self._runs:
                self._runs[path] = self._read(path)
        return sorted(self._runs.values(), key=lambda run: (run.number, run.name))

    def retry_failed(self, runs: Sequence[QueuedRun]) -> int:
        """Set runs free that have failed, and say how many."""
        failed = [(run, attempts) for run in runs if (attempts := run.attempts()) and attempts[-1].end == "failed"]
        return sum(run.retry(attempts) for run, attempts in failed)

    @property
    def workers(self) -> Path:
        """Where workers give signs of life."""
        return self._place / ".workers"

    @property
    def look_seconds(self) -> float:
        """How often to look at the folder, which tells nobody that it has changed; as often as workers give signs."""
        return self.settings.lease_seconds / RENEWALS

    @property
    def _place(self) -> Path:
        return self.folder / "queue"

    def _add(self, number: int, job: Job) -> QueuedRun:
        name = str(job.directory.resolve().relative_to(self.folder))
        path = self._place / name / "job.json"
        requested = job.requested.digest
        if not path.exists():
            followed = requested if job.plan is job.requested else job.plan.digest
            for digest, plan in {requested: job.requested, followed: job.plan}.items():
                create_once(_plan_file(path.parent, digest), plan.to_yaml())
            facts: dict[str, Any] = {"number": number, "title": job.title, "plan": job.plan.name}
            facts |= {"requested": requested, "followed": followed, "rounds": job.plan.aggregator.rounds_to_train}
            create_once(path, json.dumps({**facts, "federated": job.federated, "workers": job.workers}, indent=2))
        run = self._runs[path] = self._read(path)
        if run.requested != requested:
            raise FedAGemError(
                f"{self.folder} has a run {name} of another plan or other settings: give the same ones again, or use "
                "another folder."
            )
        return run

    def _read(self, path: Path) -> QueuedRun:
        """A run; its plans are written before job.json, so they are there."""
        name = str(path.parent.relative_to(self._place))
        facts = json.loads(path.read_text(encoding="utf-8"))
        return QueuedRun(name=name, directory=self.folder / name, folder=path.parent, **facts)


def _plan_file(folder: Path, digest: str) -> Path:
    """Named after its content, so that what an interrupted command has left is never taken for another plan."""
    return folder / f"plan-{digest}.yaml"


State = Literal["finished", "failed", "held", "free"]


@dataclass(frozen=True)
class Standing:
    """Where a run stands."""

    state: State
    attempts: list[Attempt]
    holder_is_alive: bool = False
    """Whether the worker that holds it has given a sign of life while it was watched."""


class Overview:
    """Where the runs of a queue stand; the same observer asks again and again, to see who gives signs of life."""

    def __init__(self, queue: Queue) -> None:
        self._lookout = Lookout(queue.workers, queue.settings.lease_seconds)

    def standing(self, run: QueuedRun) -> Standing:
        """Where a run stands; a worker that gives no sign of life for too long loses it."""
        attempts = run.attempts()
        if run.finished:
            return Standing("finished", attempts)
        latest = attempts[-1] if attempts else None
        if latest is not None and latest.end == "failed":
            return Standing("failed", attempts)
        if latest is None or latest.end is not None:
            return Standing("free", attempts)
        sight = self._lookout.look(latest.worker)
        return Standing("free" if sight == "gone" else "held", attempts, sight == "alive")
