"""`fedagem report`: tables and pictures of runs."""

import json
import os
from collections import Counter
from pathlib import Path

import click
from rich.console import Console

from fedagem.errors import FedAGemError
from fedagem.presentation import pictures_of, tables_of
from fedagem.report import label_of
from fedagem.results import write_results


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("report"), help="Where plots and JSON go.")
def command(runs: tuple[Path, ...], out: Path) -> None:
    """Compare RUNS: one table over methods and seeds, and plots; also for runs made by hand with `fx`.

    A folder that holds runs, such as that of a comparison or of studies, stands for all of them.
    """
    directories = list(dict.fromkeys(run for folder in runs for run in _runs_in(folder)))
    results = {directory: write_results(directory) for directory in directories}
    pictures = pictures_of(results, out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(list(results.values()), indent=2), encoding="utf-8")
    console = Console()
    console.print(*tables_of(results))
    of_seeds = Counter((run["plan"], label_of(run), run["seed"]) for run in results.values())
    for plan, label in sorted({(plan, label) for (plan, label, _), count in of_seeds.items() if count > 1}):
        console.print(
            f"{plan}, {label}: several runs have the same seed, so this is a mean over other settings too; "
            "name fewer runs to tell them apart."
        )
    for path in (*pictures, out / "results.json"):
        console.print(f"wrote {path}")


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself, if it is a run, or all runs below it."""
    found = []
    for place, folders, _ in os.walk(folder):
        if (Path(place) / "plan" / "plan.yaml").exists():
            found.append(Path(place))
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    if not found:
        raise FedAGemError(f"{folder} is not a run and holds none: there is no plan/plan.yaml in it or below it.")
    return found
