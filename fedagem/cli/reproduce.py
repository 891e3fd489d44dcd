"""`fedagem reproduce`: the paper's tables and figures, each from one command."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedagem.cli.spreading import Spread, complete, spread_options
from fedagem.errors import FedAGemError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedagem.studies.history import Record
    from fedagem.studies.runs import StudyRun
    from fedagem.studies.study import Scale, Study

SCALES = ("smoke", "paper")
_CHANGED = {"--methods": "some of its methods", "--set": "changed settings"}
"""What options say about a study that was not run as it stands."""


@click.command(name="reproduce")
@click.argument("study", required=False)
@click.option("--list", "show_list", is_flag=True, help="Every study: its data, and whether it was run here.")
@click.option("--estimate", is_flag=True, help="Every study: how long it takes here; times each network first.")
@click.option("--scale", type=click.Choice(SCALES), default="smoke", show_default=True, help="How much of it to run.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Seeds 0, 1, ... of each row.")
@click.option("--methods", help="Only the rows of these, comma-separated; one's own by the dotted path of its class.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time; by default one per core.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of every plan.")
@click.option("--sweep", "sweeps", multiple=True, metavar="PATH=V1,V2,...", help="Run it with each value; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Where runs and tables go; by default runs/studies.")
@spread_options
def command(
    study: str | None,
    show_list: bool,
    estimate: bool,
    scale: str,
    seeds: int,
    methods: str | None,
    jobs: int | None,
    assignments: tuple[str, ...],
    sweeps: tuple[str, ...],
    out: Path | None,
    spread: Spread,
) -> None:
    """Run STUDY, a table or figure of the paper, and print the paper's numbers next to ours.

    Run the same command again to resume it: finished runs are kept, and unfinished ones continue.
    """
    from rich.console import Console

    from fedagem.plans.workspace import plan_folder
    from fedagem.studies.data import fetch_missing
    from fedagem.studies.history import begin_record, end_record
    from fedagem.studies.runs import runs_of
    from fedagem.studies.selection import with_methods, with_weights_here
    from fedagem.studies.study import load_scale, load_study, study_names
    from fedagem.studies.sweep import check_sweep, grid, swept

    spread.check(jobs, out)
    folder, jobs = plan_folder(), jobs or os.cpu_count() or 1
    out = spread.queue or out or Path("runs/studies")
    if estimate:
        _print_estimates(folder, seeds, jobs, out)
        return
    if show_list:
        _print_list(folder, scale, out)
        return
    if study is None:
        raise click.UsageError(f"name a study ({', '.join(study_names(folder))}) or ask for --list.")
    points = grid(sweeps)
    check_sweep(points, assignments)
    chosen = swept(with_methods(load_study(folder, study), methods), points)
    if out.exists() and not out.is_dir():
        raise FedAGemError(f"{out} is a file: name a folder for the runs and tables (--out, --queue).")
    console = Console()
    runs, left_out = with_weights_here(runs_of(chosen, scale, seeds, folder, out, assignments))
    for sentence in left_out:
        console.print(sentence, markup=False)
    if spread.queue is None or spread.slurm is not None:  # the workers of a queue need the data, not this command
        fetch_missing(runs)
    options = {"--scale": [scale], "--seeds": [str(seeds)], "--methods": [methods] if methods else []}
    options |= {"--set": list(assignments), "--sweep": list(sweeps)}
    given = [part for name, values in options.items() for value in values for part in (name, value)]
    repeated = shlex.join(["fedagem", "reproduce", study, *given])
    tables = out / "-by-".join([f"{study}-{scale}", *points[0].names])
    record = begin_record(tables, repeated, runs)
    _complete(runs, jobs, out, spread, tables, record)
    changed = (*assignments, *points[0].assignments)
    scales = [load_scale(folder, part, scale).besides(changed) for part in chosen.parts]
    _present(chosen, scales, repeated, runs, tables, console)
    end_record(tables, record, "finished")


def _complete(runs: list[StudyRun], jobs: int, out: Path, spread: Spread, tables: Path, record: Record) -> None:
    """Finish all runs, here or elsewhere; the record says how it ended, if not well."""
    from fedagem.runs.many_runs import run_jobs
    from fedagem.studies.history import end_record

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if spread.elsewhere:
            complete([run.job() for run in runs], out, spread)
        else:
            run_jobs([run.job() for run in runs], jobs)
    except KeyboardInterrupt:
        end_record(tables, record, "interrupted")
        done = sum(run.finished for run in runs)
        click.echo(f"Interrupted; {done} of {len(runs)} runs are finished. {spread.interrupted}", err=True)
        raise SystemExit(130) from None
    except FedAGemError as problem:
        end_record(tables, record, "failed", problem.message)
        raise


def _present(
    study: Study, scales: list[Scale], command: str, runs: list[StudyRun], tables: Path, console: Console
) -> None:
    """Show the tables of finished runs, and write them with their pictures."""
    from fedagem.studies.comparison import compare
    from fedagem.studies.main_table import agreement, terminal_main_table
    from fedagem.studies.report import write_report
    from fedagem.studies.tables import terminal_tables

    lines = compare(study, runs)
    console.print(f"{study.title} ({study.paper})")
    if study.assembles is not None:
        console.print(terminal_main_table(lines))
        console.print(agreement(lines))
    else:
        for table in terminal_tables(lines):
            console.print(table)
    for path in write_report(study, scales, command, runs, lines, tables):
        console.print(f"wrote {path}")


def _print_list(folder: Path, scale: str, out: Path) -> None:
    """All studies: whether their data is here, how they last ended at each scale, and where the paper has them."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from fedagem.studies.data import needs_of_studies
    from fedagem.studies.history import read_record
    from fedagem.studies.study import load_study

    console = Console(highlight=False)
    console.print(_lines(("study", f"data at the scale {scale}", f"results in {out}"), style="bold"))
    failures = []
    lacking = False
    for name, by_plan in needs_of_studies(folder, scale).items():
        needs = dict.fromkeys(need for found in by_plan.values() for need in found)
        lacking = lacking or any(need.missing() for need in needs)
        records = {at: record for at in SCALES if (record := read_record(out / f"{name}-{at}"))}
        failures += [(name, at, record.reason) for at, record in records.items() if record.ending == "failed"]
        data = ", ".join(f"{need.name} (missing)" if need.missing() else need.name for need in needs)
        results = "\n".join(f"{at}: {_ending(record, out)}" for at, record in records.items()) or "not run"
        console.print(_lines((name, data, results)))
        console.print(Padding(Text(load_study(folder, name).paper, style="dim"), (0, 0, 0, 2)))
    for name, at, reason in failures:
        console.print(f"{name} at the scale {at} failed: {reason}", markup=False)
    if lacking:
        console.print("`fedagem data` says where to get what is missing, and where to put it.")


def _print_estimates(folder: Path, seeds: int, jobs: int, out: Path) -> None:
    """All studies with their number of runs and the time that they would take at each scale."""
    from rich.console import Console
    from rich.table import Table

    from fedagem.studies.estimate import Estimator
    from fedagem.studies.runs import runs_of
    from fedagem.studies.study import load_study, study_names

    table = Table("study", "runs", *SCALES, title=f"With {seeds} seeds and {jobs} runs at a time")
    estimator = Estimator()
    with Console(stderr=True).status("timing the networks on this machine"):
        for name in study_names(folder):
            study = load_study(folder, name)
            of_one_seed = [runs_of(study, scale, 1, folder, out) for scale in SCALES]
            times = [_duration(estimator.seconds(runs, jobs), seeds) for runs in of_one_seed]
            table.add_row(name, str(len(of_one_seed[0]) * seeds), *times)
    Console().print(table)


def _lines(cells: tuple[str, str, str], style: str = "") -> Table:
    """Three cells beside each other that break between words; those of all studies are aligned."""
    from rich.table import Table

    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(width=20, no_wrap=True, style="bold")
    row.add_column(width=26, overflow="fold")
    row.add_column(ratio=1, overflow="fold")
    row.add_row(*cells, style=style)
    return row


def _ending(record: Record, out: Path) -> str:
    """How a study ended, in a few words."""
    day = (record.ended or record.began)[:10]
    changed = [words for option, words in _CHANGED.items() if option in shlex.split(record.command)]
    if record.ending == "finished":
        return ", ".join([f"finished {day}", f"{record.seeds} seed{'s' if record.seeds > 1 else ''}", *changed])
    done = f"{record.finished_runs(out)} of {len(record.rounds)} runs"
    return ", ".join([f"{record.ending or 'begun'} {day}", done, *changed])


def _duration(of_one_seed: float | None, seeds: int) -> str:
    if of_one_seed is None:
        return "no estimate"
    seconds = of_one_seed * seeds
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return "1 min"
