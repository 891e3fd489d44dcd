"""Runs the unfinished runs of a study, several side by side, each as a simulation in its own process."""

import re
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedagem.federation import start_simulation
from fedagem.processes import ProcessGroup
from fedagem.results import write_results
from fedagem.run_directory import create_run, resume_run
from fedagem.studies.study_runs import StudyRun


class _StoppedError(Exception):
    """The study ends: by an interrupt, or because another run failed."""


def execute(runs: Sequence[StudyRun], jobs: int) -> None:
    """Bring every run to its end: finished ones are left alone, begun ones go on, the others start.

    The first failure, or an interrupt, stops the rest; what they have learned so far stays on disk.
    """
    todo = list({run.directory: run for run in runs if not run.finished}.values())
    stop = threading.Event()
    with _progress() as progress, ThreadPoolExecutor(max_workers=jobs) as pool:
        overall = progress.add_task("study", total=len(runs), completed=len(runs) - len(todo))

        def one(run: StudyRun) -> None:
            if stop.is_set():
                raise _StoppedError
            bar = progress.add_task(run.title, total=run.plan["aggregator"]["settings"]["rounds_to_train"])
            try:
                _simulate(run, stop, lambda rounds: progress.update(bar, completed=rounds))
            finally:
                progress.remove_task(bar)
            progress.advance(overall)

        futures = [pool.submit(one, run) for run in todo]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for problem in (future.exception() for future in futures):
        if problem is not None and not isinstance(problem, _StoppedError):
            raise problem


def _simulate(run: StudyRun, stop: threading.Event, show_rounds: Callable[[int], None]) -> None:
    if (run.directory / "plan" / "plan.yaml").exists():
        resume_run(run.directory, run.plan)
    else:
        shutil.rmtree(run.directory, ignore_errors=True)  # laid out by half when the study was stopped
        create_run(run.directory, run.plan, run.plan_name)

    def refresh() -> None:
        if stop.is_set():
            raise _StoppedError
        show_rounds(_rounds_done(run.directory / "metrics.jsonl"))

    with ProcessGroup(run.directory) as group:
        start_simulation(group)
        group.wait(refresh)
    write_results(run.directory)


def _rounds_done(metrics: Path) -> int:
    """How many rounds have begun, from the end of the file."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(metrics.stat().st_size - 4096, 0))
        numbers = re.findall(rb'^{"round": (\d+)', file.read(), re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
