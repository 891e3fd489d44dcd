"""`fedagem report`: tables and pictures of runs."""

import json
from pathlib import Path

import click
from rich.console import Console

from fedagem.report import draw_plots, results_table
from fedagem.results import write_results


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("report"), help="Where plots and JSON go.")
def command(runs: tuple[Path, ...], out: Path) -> None:
    """Compare RUNS: one table over methods and seeds, and plots; also for runs made by hand with `fx`."""
    results = [write_results(run) for run in runs]
    pictures = draw_plots(list(runs), out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2), encoding="utf-8")
    console = Console()
    console.print(results_table(results))
    for path in (*pictures, out / "results.json"):
        console.print(f"wrote {path}")
