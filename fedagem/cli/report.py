"""`fedagem report`: tables and pictures of runs."""

import json
import os
from collections import Counter
from pathlib import Path

import click

from fedagem.errors import FedAGemError


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("report"), help="Where plots, pages and JSON go.")
def command(runs: tuple[Path, ...], out: Path) -> None:
    """Compare RUNS: a table over methods and seeds, plots, and a page; also for runs made by hand with `fx`.

    A folder that holds runs, such as that of a comparison or of studies, stands for all of them. Every plan gets its
    page, and runs that have measured nothing yet are left out.
    """
    from rich.console import Console

    from fedagem.reports.figures import pictures_of
    from fedagem.reports.page import pages_of
    from fedagem.reports.tables import tables_of
    from fedagem.runs.results import csv_of, scalars, write_results

    directories = list(dict.fromkeys(run for folder in runs for run in runs_in(folder)))
    results = {directory: write_results(directory) for directory in _begun(directories)}
    illustrations = [*pictures_of(results, out), *pages_of(results, out)]
    out.mkdir(parents=True, exist_ok=True)
    contents = [run.to_json() for run in results.values()]
    numbers = [scalar for run in results.values() for scalar in scalars(run)]
    (out / "results.json").write_text(json.dumps(contents, indent=2), encoding="utf-8")
    (out / "results.csv").write_text(csv_of(numbers), encoding="utf-8")
    console = Console()
    console.print(*tables_of(results))
    of_seeds = Counter((run.plan, run.label, run.seed) for run in results.values())
    for plan, label in sorted({(plan, label) for (plan, label, _), count in of_seeds.items() if count > 1}):
        console.print(
            f"{plan}, {label}: several runs have the same seed, so this is a mean over other settings too; "
            "name fewer runs to tell them apart."
        )
    for path in (*illustrations, out / "results.json", out / "results.csv"):
        console.print(f"wrote {path}")


def runs_in(folder: Path) -> list[Path]:
    """The folder itself, if it is a run, or all runs below it."""
    from fedagem.runs.folder import is_run

    found = []
    for place, folders, _ in os.walk(folder):
        if is_run(Path(place)):
            found.append(Path(place))
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    if not found:
        raise FedAGemError(f"{folder} is not a run and holds none: there is no plan/plan.yaml in it or below it.")
    return found


def _begun(directories: list[Path]) -> list[Path]:
    """Those that have measured something; the others are named."""
    begun = [directory for directory in directories if (directory / "metrics.jsonl").exists()]
    if not begun:
        names = ", ".join(map(str, directories))
        raise FedAGemError(f"none of these runs has begun, there is no metrics.jsonl in any of them: {names}.")
    for directory in directories:
        if directory not in begun:
            click.echo(f"left out {directory}: it has no metrics.jsonl, the run has not begun.", err=True)
    return begun
