"""The options of commands whose runs may be spread over machines, and how those runs are then completed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedagem.errors import FedAGemError

if TYPE_CHECKING:
    from fedagem.runs.many_runs import Job
    from fedagem.studies.queue import Queue

_TASKS = 16
"""Tasks of an array, if nobody says how many."""


@dataclass(frozen=True)
class Spread:
    """Where the user wants the runs to be completed."""

    queue: Path | None
    slurm: str | None
    array: int | None
    retry: bool

    @property
    def elsewhere(self) -> bool:
        """Whether this process only waits for the runs."""
        return self.queue is not None or self.slurm is not None

    @property
    def interrupted(self) -> str:
        """What becomes of the runs if the user stops waiting for them."""
        if not self.elsewhere:
            return "Run the same command again to resume."
        who = "the workers go on" if self.slurm is None else "the array goes on, and scancel ends it"
        return f"This command only waited: {who}. Run it again to see the results."

    def check(self, jobs: int | None, out: Path | None) -> None:
        """Refuse options that contradict each other, or that would be ignored, and a cluster that cannot be reached."""
        if self.array is not None and self.slurm is None:
            raise FedAGemError("--array is for --slurm: say what each of its tasks asks for.")
        if self.retry and not self.elsewhere:
            raise FedAGemError(
                "--retry is for --queue and --slurm: on this machine alone, run the same command again to go on."
            )
        if jobs is not None and self.elsewhere:
            raise FedAGemError(
                f"--jobs {jobs} is for runs on this machine alone: give it to `fedagem work`; a task of an array has "
                "one run at a time."
            )
        if self.queue is not None and out is not None:
            raise FedAGemError(f"--out {out} and --queue exclude each other: everything goes to the queue's folder.")
        if self.slurm is not None:
            from fedagem.studies.slurm import SlurmSettings, check_slurm

            SlurmSettings.parse(self.slurm)
            check_slurm()


def spread_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options of a spread; it is called with a Spread and its own options."""

    @click.option("--queue", type=click.Path(path_type=Path), help="Leave the runs to `fedagem work` on this folder.")
    @click.option("--slurm", metavar="KEY=VALUE,...", help="Leave the runs to a Slurm array: time=4:00:00,gpus=1,...")
    @click.option("--array", type=click.IntRange(min=1), help=f"Tasks of the Slurm array; by default {_TASKS}.")
    @click.option("--retry", is_flag=True, help="Try runs of the queue or array again that have failed.")
    def wrapper(**options: Any) -> None:
        shared = {field.name: options.pop(field.name) for field in fields(Spread)}
        command(spread=Spread(**shared), **options)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


def complete(jobs: Sequence[Job], folder: Path, spread: Spread) -> None:
    """Lay the runs out in the queue of a folder, see to workers if Slurm shall have them, and wait for the results."""
    from fedagem.runs.many_runs import check_finished
    from fedagem.studies.queue import Queue
    from fedagem.studies.waiting import wait_for_runs

    check_finished(jobs)
    queue = Queue.create(folder)
    runs = queue.add(jobs)
    if spread.retry:
        click.echo(f"{queue.retry_failed(runs)} runs that failed are tried again.", err=True)
    unfinished = sum(not run.finished for run in runs)
    if spread.slurm is not None:
        wait_for_runs(queue, runs, _see_to_array(queue, spread.slurm, min(spread.array or _TASKS, unfinished)))
        return
    if unfinished:
        click.echo(
            f"{unfinished} of {len(runs)} runs are to be done in {queue.folder}: start `fedagem work {queue.folder}` "
            "on every machine that shall help.",
            err=True,
        )
    wait_for_runs(queue, runs, lambda: None)


def _see_to_array(queue: Queue, slurm: str, tasks: int) -> Callable[[], str | None]:
    """Submit an array unless there are tasks, or nothing is left to do; whom to ask whether anybody is left."""
    from fedagem.studies.slurm import SlurmArray, SlurmSettings

    array = SlurmArray(queue.folder)
    if alive := array.alive():
        click.echo(f"{len(alive)} tasks are at work already ({alive[0]}, ...); their logs: {array.logs}", err=True)
    elif tasks:
        name = array.submit(SlurmSettings.parse(slurm), tasks)
        click.echo(f"submitted the array {name} with {tasks} tasks; their logs: {array.logs}", err=True)
    return array.nobody_left
