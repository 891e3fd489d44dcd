"""How a run ends: with its results, or with the command that resumes it."""

import shlex
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console

from fedagem.cli.options import RunRequest
from fedagem.reports.figures import pictures_of
from fedagem.reports.page import write_page
from fedagem.reports.privacy import privacy_note
from fedagem.reports.tables import tables_of
from fedagem.reports.tensorboard import write_tensorboard
from fedagem.runs.results import collect_results, write_final_results


def finish_run(directory: Path) -> None:
    """Write the results, the plots and the page, and show the table."""
    results = write_final_results(directory)
    illustrations = illustrate_run(directory)
    console = Console()
    console.print(*tables_of({directory: results}))
    if note := privacy_note(results):
        console.print(f"privacy: {note}", soft_wrap=True)
    console.print(f"results: {directory / 'results.json'}")
    for path in illustrations:
        console.print(f"{'page' if path.suffix == '.html' else 'plot'}:    {path}")


def illustrate_run(directory: Path) -> list[Path]:
    """What people look at: the plots, the page, and TensorBoard's log."""
    pictures = pictures_of({directory: collect_results(directory)}, directory / "plots")
    write_tensorboard(directory)
    return [*pictures, write_page([directory], directory / "report.html")]


def interrupted(command: str, request: RunRequest, directory: Path) -> NoReturn:
    """Say how to resume, and leave with the exit code of an interrupt."""
    parts = ["fedagem", command, str(request.plan_path), "--resume", "--out", str(directory)]
    parts += [] if request.rounds is None else ["--rounds", str(request.rounds)]
    parts += [] if request.seed is None else ["--seed", str(request.seed)]
    parts += [part for assignment in request.assignments for part in ("--set", assignment)]
    parts += [] if request.detector is None else ["--detector", request.detector]
    parts += [part for kind in request.track for part in ("--track", kind)]
    parts += ["--keep-received"] if request.keep_received else []
    click.echo(f"Interrupted; progress is saved. Resume with: {shlex.join(parts)}", err=True)
    raise SystemExit(130)
