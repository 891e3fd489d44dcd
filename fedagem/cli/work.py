"""`fedagem work`: complete runs that a queue in a shared folder holds."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command(name="work")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time; by default one per core.")
@click.option("--wait", is_flag=True, help="Wait for more runs when all have ended, until interrupted.")
@click.option("--retry", is_flag=True, help="Try runs again that have failed.")
@click.option(
    "--stand-by/--no-stand-by",
    default=True,
    show_default=True,
    help="Stay while other workers have runs, and go on with those of a worker that dies.",
)
def command(folder: Path, jobs: int | None, wait: bool, retry: bool, stand_by: bool) -> None:
    """Complete the runs in the queue of FOLDER, as one of any number of workers on any number of machines.

    `fedagem reproduce` and `fedagem compare` make the queue with --queue. Workers may come, go and be killed at any
    time: a run goes on where its last worker left it.
    """
    from fedagem.studies.queue import Queue
    from fedagem.studies.worker import work

    queue = Queue.open(folder)
    if retry:
        click.echo(f"{queue.retry_failed(queue.runs())} runs that failed are tried again.", err=True)
    try:
        work(queue, jobs or os.cpu_count() or 1, wait, stand_by)
    except KeyboardInterrupt:
        click.echo("Interrupted; progress is saved, and other workers go on with these runs.", err=True)
        raise SystemExit(130) from None
    runs = queue.runs()
    finished = sum(run.finished for run in runs)
    failed = [run for run in runs if not run.finished and (ends := run.attempts()) and ends[-1].end == "failed"]
    click.echo(f"{finished} of {len(runs)} runs are finished, {len(failed)} have failed.", err=True)
    for run in failed:
        click.echo(f"{run.title}: {run.attempts()[-1].sentence}", err=True)
    if failed:
        raise SystemExit(1)
