"""Many runs for one question: each in a folder of its own, side by side if asked, resumable one by one."""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedagem.errors import FedAGemError

_REFRESH_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One run: a plan, what is changed in it, and where it goes."""

    plan: Path
    directory: Path
    seed: int
    assignments: tuple[str, ...] = ()
    rounds: int | None = None
    command: Literal["simulate", "run"] = "simulate"

    @property
    def finished(self) -> bool:
        """Whether the run has its results."""
        return (self.directory / "results.json").exists()

    def arguments(self) -> list[str]:
        """The command line; a run that was begun is resumed."""
        fedagem = str(Path(sys.executable).with_name("fedagem"))
        line = [fedagem, self.command, str(self.plan), "--out", str(self.directory), "--seed", str(self.seed)]
        line += [] if self.rounds is None else ["--rounds", str(self.rounds)]
        line += [part for assignment in self.assignments for part in ("--set", assignment)]
        return [*line, "--resume"] if (self.directory / "plan" / "plan.yaml").exists() else line


def run_jobs(jobs: Sequence[Job], parallel: int = 1) -> None:
    """Run what is not finished, `parallel` at a time; a failure stops the rest and says which run failed and why."""
    waiting = [job for job in jobs if not job.finished]
    processes = _Processes()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress, ThreadPoolExecutor(parallel) as pool:
        total = progress.add_task("runs", total=len(jobs), completed=len(jobs) - len(waiting))
        futures = [pool.submit(_run, job, progress, processes) for job in waiting]
        try:
            while True:
                done, pending = wait(futures, timeout=_REFRESH_SECONDS, return_when=FIRST_EXCEPTION)
                progress.update(total, completed=len(jobs) - len(waiting) + len(done))
                for future in done:
                    future.result()
                if not pending:
                    return
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.stop()


class _Processes:
    """The runs under way, so that none outlives the batch."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._stopped = Event()

    def start(self, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
        with self._lock, log.open("ab") as output:
            if self._stopped.is_set():
                raise FedAGemError("the batch was stopped.")
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            self._running.add(process)
            return process

    def stop(self) -> None:
        with self._lock:
            self._stopped.set()
            for process in self._running:
                process.terminate()
        for process in self._running:
            process.wait()


def _run(job: Job, progress: Progress, processes: _Processes) -> None:
    job.directory.parent.mkdir(parents=True, exist_ok=True)
    log = job.directory.with_name(f"{job.directory.name}.log")
    task = progress.add_task(job.directory.name, total=job.rounds)
    process = processes.start(job.arguments(), log)
    while True:
        try:
            code = process.wait(_REFRESH_SECONDS)
            break
        except subprocess.TimeoutExpired:
            rounds = _rounds_done(job.directory / "metrics.jsonl")
            progress.update(task, completed=rounds)
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        reason = next((line for line in reversed(lines) if line.startswith("Error: ")), "Error: see its log")
        raise FedAGemError(f"{job.directory.name} failed: {reason.removeprefix('Error: ')} (its log: {log})")
    progress.remove_task(task)


def _rounds_done(metrics: Path) -> int:
    """The round of the last whole row."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(file.seek(0, 2) - 4096, 0))
        lines = file.read().splitlines()[1:-1]
    return int(json.loads(lines[-1])["round"]) + 1 if lines else 0
