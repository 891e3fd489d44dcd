"""A Slurm array whose tasks are workers of a queue, submitted with submitit.

A task that runs out of time, or is preempted, gives its runs back and is requeued; the runs go on where they were.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedagem.errors import FedAGemError
from fedagem.runs import end_with_parent
from fedagem.settings import Settings, parse_settings

_STOPPING_SECONDS = 90
"""So long before the end of its time a task is told to stop."""
_LEAST_MINUTES = 2
_REQUEUES = 10_000
"""Times that a task may run out of time; a run that gets nowhere ends by the rules of the queue."""
_SQUEUE_SECONDS = 20.0
"""How often Slurm is asked about its tasks: not more often than its administrators like."""


class SlurmSettings(Settings):
    """What each task of the array asks for, under the names of sbatch's options."""

    time: str
    """The time limit of a task, such as 4:00:00 or 1-12; after it the task is requeued."""
    partition: str | None = None
    """The partition that tasks run in; by default the cluster's."""
    account: str | None = None
    """Whom the time is charged to."""
    qos: str | None = None
    """The quality of service."""
    reservation: str | None = None
    """A reservation to run in."""
    constraint: str | None = None
    """Features that the nodes must have."""
    gpus: str | None = None
    """How many GPUs a task gets, such as 1 or a100:1."""
    gres: str | None = None
    """Generic resources of a task, on clusters that do not know `gpus`."""
    cpus: str | None = None
    """How many processors a task gets."""
    mem: str | None = None
    """The memory of a task, such as 16G."""

    @classmethod
    def parse(cls, text: str) -> "SlurmSettings":
        """From `partition=gpu,gpus=1,time=4:00:00`."""
        values: dict[str, str] = {}
        for part in text.split(","):
            key, equals, value = part.strip().partition("=")
            if not (key and equals and value):
                raise FedAGemError(
                    f"--slurm takes key=value,key=value, as in partition=gpu,time=4:00:00, not {part!r}."
                )
            if key in values:
                raise FedAGemError(f"--slurm has {key} twice: give it once.")
            values[key] = value
        if "time" not in values:
            raise FedAGemError("--slurm needs the time limit of a task, as in time=4:00:00.")
        settings = parse_settings(cls, values, "--slurm")
        if settings.minutes < _LEAST_MINUTES:
            raise FedAGemError(
                f"--slurm time={settings.time} is less than {_LEAST_MINUTES} minutes: the last {_STOPPING_SECONDS} s "
                "of a task are for stopping in good order."
            )
        return settings

    @property
    def minutes(self) -> int:
        """The time limit, from any of the forms that Slurm knows."""
        form = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", self.time)
        if form is None:
            raise FedAGemError(f"--slurm time={self.time} is no time limit: write it as 30, 4:00:00 or 1-12:00:00.")
        days, *parts = form.groups()
        numbers = [int(part) for part in parts if part is not None]
        if days is not None or len(numbers) == 3:
            hours, minutes, seconds = (*numbers, 0, 0)[:3]
        else:
            hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
        return (int(days or 0) * 24 + hours) * 60 + minutes + (seconds > 0)

    @property
    def options(self) -> dict[str, str]:
        """sbatch's options, apart from the time."""
        given = self.model_dump(exclude_none=True, exclude={"time"})
        return {"cpus-per-task" if name == "cpus" else name: value for name, value in given.items()}


@dataclass
class ArrayTask:
    """What a task of the array does; submitit pickles it, and calls `checkpoint` when the time of the task is over."""

    folder: Path
    _worker: int = field(default=0, repr=False)
    """The process id of the worker, while there is one."""

    def __call__(self) -> None:
        """Be a worker until every run is finished or held by another one."""
        fedagem = str(Path(sys.executable).with_name("fedagem"))
        command = [fedagem, "work", str(self.folder), "--jobs", "1", "--no-stand-by"]
        process = subprocess.Popen([sys.executable, "-S", end_with_parent.__file__, str(os.getpid()), *command])
        self._worker = process.pid
        if code := process.wait():
            raise SystemExit(code)

    def checkpoint(self) -> Any:
        """Let the worker give its runs back, and go on with another one after the requeue."""
        from submitit.helpers import DelayedSubmission

        if self._worker:
            os.kill(self._worker, signal.SIGUSR2)
            os.waitid(os.P_PID, self._worker, os.WEXITED | os.WNOWAIT)  # reaped by `wait`, which this has interrupted
        return DelayedSubmission(ArrayTask(self.folder))


class SlurmArray:
    """The tasks that work on the queue of a folder, whoever has submitted them."""

    def __init__(self, folder: Path) -> None:
        check_slurm()
        self._folder = folder
        self._asked = float("-inf")
        self._alive: list[str] | None = None

    @property
    def logs(self) -> Path:
        """Where the tasks' logs are, and what submitit needs to start them."""
        return self._folder / "slurm"

    def submit(self, settings: SlurmSettings, tasks: int) -> str:
        """Submit an array of so many tasks, and say what Slurm calls it."""
        import submitit

        executor = submitit.SlurmExecutor(self.logs, max_num_timeout=_REQUEUES)
        executor.update_parameters(
            job_name="fedagem",
            time=settings.minutes,
            signal_delay_s=_STOPPING_SECONDS,
            array_parallelism=tasks,
            stderr_to_stdout=True,
            additional_parameters={"requeue": True, **settings.options},
        )
        try:
            with executor.batch():
                submitted = [executor.submit(ArrayTask(self._folder)) for _ in range(tasks)]
        except submitit.core.utils.FailedJobError as problem:
            raise FedAGemError(f"sbatch has refused the array: {_last_line(str(problem))}") from problem
        self._asked = float("-inf")
        return str(submitted[0].job_id).partition("_")[0]

    def alive(self) -> list[str] | None:
        """The tasks that wait or run; None if Slurm does not answer."""
        if time.monotonic() - self._asked >= _SQUEUE_SECONDS:
            self._asked, self._alive = time.monotonic(), self._ask()
        return self._alive

    def nobody_left(self) -> str | None:
        """Why nobody will complete what is left; None as long as there are tasks, or Slurm does not answer."""
        if self.alive() != []:
            return None
        return (
            f"runs are unfinished, but no task of the array is left: see the logs in {self.logs}, and run the same "
            "command again to go on."
        )

    def _ask(self) -> list[str] | None:
        command = ["squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            return None
        ours = {path.name.removesuffix("_submitted.pkl") for path in self.logs.glob("*_submitted.pkl")}
        return [task for task in answer.stdout.split() if task in ours]


def check_slurm() -> None:
    """Refuse a machine from which nothing can be submitted."""
    for program in ("sbatch", "srun", "squeue"):
        if shutil.which(program) is None:
            raise FedAGemError(
                f"{program} is not here: --slurm works on the login node of a Slurm cluster; use --queue elsewhere."
            )
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise FedAGemError("--slurm needs submitit: install it with `pip install 'fedagem[slurm]'`.") from None


def _last_line(text: str) -> str:
    return [line.strip() for line in text.splitlines() if line.strip()][-1]
