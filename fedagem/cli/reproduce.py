"""`fedagem reproduce`: the paper's tables and figures, each from one command."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedagem.errors import FedAGemError

if TYPE_CHECKING:
    from fedagem.studies.data import StudyData

SCALES = ("smoke", "paper")


@click.command(name="reproduce")
@click.argument("study", required=False)
@click.option("--list", "show_list", is_flag=True, help="Every study: what it needs and how long it takes here.")
@click.option("--scale", type=click.Choice(SCALES), default="smoke", show_default=True, help="How much of it to run.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Seeds 0, 1, ... of each row.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time; by default one per core.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of every plan.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/studies"), help="Where runs and tables go.")
def command(
    study: str | None,
    show_list: bool,
    scale: str,
    seeds: int,
    jobs: int | None,
    assignments: tuple[str, ...],
    out: Path,
) -> None:
    """Run STUDY, a table or figure of the paper, and print the paper's numbers next to ours.

    Run the same command again to resume it: finished runs are kept, and unfinished ones continue.
    """
    from rich.console import Console

    from fedagem.plans.workspace import plan_folder
    from fedagem.runs.many_runs import run_jobs
    from fedagem.studies.comparison import compare
    from fedagem.studies.data import fetch_missing
    from fedagem.studies.report import write_report
    from fedagem.studies.runs import runs_of
    from fedagem.studies.study import load_scale, load_study, study_names
    from fedagem.studies.tables import terminal_tables

    folder, jobs = plan_folder(), jobs or os.cpu_count() or 1
    if show_list:
        _print_list(folder, seeds, jobs, out)
        return
    if study is None:
        raise click.UsageError(f"name a study ({', '.join(study_names(folder))}) or ask for --list.")
    chosen = load_study(folder, study)
    if out.exists() and not out.is_dir():
        raise FedAGemError(f"--out {out} is a file: name a folder for the runs and tables.")
    runs = runs_of(chosen, scale, seeds, folder, out, assignments)
    fetch_missing(runs)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_jobs([run.job() for run in runs], jobs)
    except KeyboardInterrupt:
        done = sum(run.finished for run in runs)
        click.echo(
            f"Interrupted; {done} of {len(runs)} runs are finished. Run the same command again to resume.", err=True
        )
        raise SystemExit(130) from None
    lines = compare(chosen, runs)
    console = Console()
    console.print(f"{chosen.title} ({chosen.paper})")
    for table in terminal_tables(lines):
        console.print(table)
    scales = [load_scale(folder, part, scale).besides(assignments) for part in chosen.parts]
    repeated = ["fedagem", "reproduce", study, "--scale", scale, "--seeds", str(seeds)]
    repeated += [part for assignment in assignments for part in ("--set", assignment)]
    for path in write_report(chosen, scales, shlex.join(repeated), runs, lines, out / f"{study}-{scale}"):
        console.print(f"wrote {path}")


def _print_list(folder: Path, seeds: int, jobs: int, out: Path) -> None:
    """All studies, with the data they need, the folder it is expected in, and the time they would take."""
    from rich.console import Console
    from rich.table import Table

    from fedagem.studies.data import data_of
    from fedagem.studies.estimate import Estimator
    from fedagem.studies.runs import runs_of
    from fedagem.studies.study import load_study, study_names

    table = Table(title=f"Studies, with {seeds} seeds and {jobs} runs at a time")
    table.add_column("study", no_wrap=True)
    for heading in ("paper", "needs", "runs", *SCALES):
        table.add_column(heading, overflow="fold")
    estimator = Estimator()
    data: dict[str, StudyData] = {}
    with Console(stderr=True).status("timing the networks on this machine"):
        for name in study_names(folder):
            study = load_study(folder, name)
            of_one_seed = {scale: runs_of(study, scale, 1, folder, out) for scale in SCALES}
            times = [_duration(estimator.seconds(runs, jobs), seeds) for runs in of_one_seed.values()]
            runs = of_one_seed["paper"]
            needs = {needed.dataset: needed for needed in data_of(runs)}
            data |= needs
            table.add_row(name, study.paper, ", ".join(needs), str(len(runs) * seeds), *times)
    console = Console()
    console.print(table)
    for needed in data.values():
        console.print(_whereabouts(needed), soft_wrap=True, markup=False)


def _whereabouts(data: StudyData) -> str:
    """Whether a data set is there; of one that is not, what is missing."""
    from fedagem.tasks.sources import comes_with_a_package

    if comes_with_a_package(data.dataset):
        return f"{data.dataset}: installed with the packages"
    missing = data.missing()
    if not missing:
        return f"{data.dataset}: found in {data.place}"
    return f"{data.dataset}: to be put in {data.place} (missing: {', '.join(map(str, missing))})"


def _duration(of_one_seed: float | None, seeds: int) -> str:
    if of_one_seed is None:
        return "no estimate"
    seconds = of_one_seed * seeds
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return "1 min"
