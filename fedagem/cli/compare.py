"""`fedagem compare`: one plan under several methods and seeds, all on the same frames."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedagem.cli.options import check_trackers, track_option
from fedagem.cli.spreading import Spread, complete, spread_options
from fedagem.errors import FedAGemError, PlanError

if TYPE_CHECKING:
    from fedagem.plans.plan import Plan
    from fedagem.reports.summary import Summary
    from fedagem.runs.many_runs import Job
    from fedagem.studies.sweep import Point

_METHODS = "fedavg,der,der+fedagem"
_FRAMES = "driving.snippets"
"""The setting that says where recordings are kept."""
_DRIVE = "carla.seed"
"""The setting that says which drive it is: over drives one may take a mean."""


@click.command(name="compare")
@click.argument("plan_path", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--methods", help=f"Comma-separated; by default {_METHODS}, and for driving plans ideal too.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds, from 0 on.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time; by default 1.")
@click.option("--federated", is_flag=True, help="Real federations of fx processes instead of simulations.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds in all, instead of the plan's number.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
@click.option("--sweep", "sweeps", multiple=True, metavar="PATH=V1,V2,...", help="Run it with each value; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the comparison; by default under runs/.")
@track_option
@spread_options
def command(
    plan_path: Path,
    methods: str | None,
    seeds: int,
    jobs: int | None,
    federated: bool,
    rounds: int | None,
    assignments: tuple[str, ...],
    sweeps: tuple[str, ...],
    out: Path | None,
    track: tuple[str, ...],
    spread: Spread,
) -> None:
    """Run PLAN under several methods and seeds on the same frames, and draw mAP or accuracy by round.

    Run the same command again to resume it.
    """
    from fedagem.plans.driving import DrivingSettings
    from fedagem.plans.plan import Plan
    from fedagem.plans.workspace import find_plan
    from fedagem.runs.many_runs import Job, run_jobs
    from fedagem.runs.preparation import prepare, warm_up
    from fedagem.studies.sweep import check_sweep, grid

    spread.check(jobs, out)
    check_trackers(track)
    points = grid(sweeps)
    check_sweep(points, assignments)
    loaded = Plan.load(find_plan(plan_path))
    out = out or (spread.queue or Path("runs")) / f"{loaded.name}-comparison"
    shared = (spread.queue or out).resolve() if spread.elsewhere else None
    requests = [_requested(loaded, (*assignments, *point.assignments), rounds, shared) for point in points]
    if methods is None:
        methods = f"ideal,{_METHODS}" if isinstance(loaded.data, DrivingSettings) else _METHODS
    chosen = {name.strip(): method_changes(name.strip()) for name in methods.split(",")}
    _check_sweep_shows(requests, chosen, sweeps)
    _check_folder(out)
    work: list[tuple[Point, Job]] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        plans = [prepare(requested, live=False) for requested in requests]
        for seed in range(seeds):
            for point, requested, plan in zip(points, requests, plans, strict=True):
                beginning = warm_up(plan.changed(seed=seed), shared or Path("runs"))
                for name, changes in chosen.items():
                    plan_name = _joined(plan.name, point.file_name)
                    job = Job(
                        ", ".join(filter(None, (name, point.label, f"seed {seed}"))),
                        _variant(requested.changed(seed=seed), changes).renamed(plan_name),
                        _variant(beginning, changes).renamed(plan_name),
                        out / _joined(name, point.file_name, f"seed{seed}"),
                        federated,
                    )
                    work.append((point, job))
        if shared is not None:
            complete([job for _, job in work], shared, spread)
        else:
            run_jobs([job for _, job in work], jobs or 1)
    except KeyboardInterrupt:
        click.echo(f"Interrupted; progress is saved. {spread.interrupted}", err=True)
        raise SystemExit(130) from None
    _present(work, out)
    if track:
        from fedagem.cli.tracking import track_finished

        for _, job in work:
            track_finished(job.directory, track)


def _requested(loaded: Plan, assignments: tuple[str, ...], rounds: int | None, shared: Path | None) -> Plan:
    """The plan as it was asked for, which can run; in a folder that machines share, they share its recordings, too."""
    from fedagem.plans.checks import check_plan, check_snippet_paths
    from fedagem.studies.study import overlap

    plan = loaded.changed(assignments=assignments, rounds=rounds)
    chosen = any(overlap(_FRAMES, assignment.partition("=")[0]) for assignment in assignments)
    if shared is not None and plan.driving is not None and not chosen:
        plan = plan.changed({_FRAMES: str(shared / "snippets")})
    check_plan(plan)
    check_snippet_paths(plan)
    return plan


def method_changes(name: str) -> dict[str, Any]:
    """`der+fedagem` as changes to a plan."""
    from fedagem.learning.methods import METHODS, find_method
    from fedagem.settings import suggestion

    method, _, extra = name.partition("+")
    if (method not in METHODS and "." not in method) or extra not in {"", "fedagem"}:
        known = [*METHODS, *(f"{method}+fedagem" for method in METHODS)]
        raise PlanError(f"--methods has {name!r}{suggestion(name, known)}")
    find_method(method)
    return {"task_runner.settings.method": method, "task_runner.settings.fedagem": bool(extra)}


def _check_sweep_shows(requests: list[Plan], chosen: dict[str, dict[str, Any]], sweeps: tuple[str, ...]) -> None:
    """Refuse a sweep over what this command sets itself, such as the method: its runs would all be the same."""
    plans = [plan.changed(seed=0) for plan in requests]
    variants = {tuple(_variant(plan, changes).digest for changes in chosen.values()) for plan in plans}
    if len(variants) < len(plans):
        raise PlanError(
            f"--sweep {' --sweep '.join(sweeps)} gives the same runs more than once: methods, seeds and rounds are "
            "those of --methods, --seeds and --rounds, and what these methods do not use cannot be swept."
        )


def _check_folder(out: Path) -> None:
    """Refuse, before hours of runs, a folder that cannot be made because a file is in its way."""
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise FedAGemError(f"{place} is a file: choose another folder for the comparison (--out).")


def _present(work: list[tuple[Point, Job]], out: Path) -> None:
    """Finish the pages of the runs, then write and show what compares them: at each point of a sweep by itself."""
    from rich.console import Console
    from rich.markup import escape

    from fedagem.cli.finish import illustrate_run
    from fedagem.reports.answer import headline, over_drives
    from fedagem.reports.figures import draw_comparison
    from fedagem.reports.page import write_page
    from fedagem.reports.summary import summarise_runs
    from fedagem.reports.tables import comparison_table
    from fedagem.runs.folder import plan_of_run
    from fedagem.runs.results import collect_results
    from fedagem.studies.sweep import csv_of_sweep

    results = {job.directory: collect_results(job.directory) for _, job in work}
    places: dict[str, list[Path]] = {}
    for point, job in work:
        places.setdefault(point.file_name, []).append(job.directory)
        if not (job.directory / "report.html").exists():
            illustrate_run(job.directory)
    summaries = {name: summarise_runs(directories) for name, directories in places.items()}
    written = []
    for name, directories in places.items():
        written += draw_comparison(directories, out, _joined("comparison", name))
        written.append(write_page(directories, out / f"{_joined('report', name)}.html"))
    content = {name: dataclasses.asdict(summary) for name, summary in summaries.items()}
    table = csv_of_sweep([(point, results[job.directory]) for point, job in work])
    (out / "comparison.json").write_text(json.dumps(content.get("", content), indent=2), encoding="utf-8")
    (out / "results.csv").write_text(table, encoding="utf-8")
    console = Console()
    console.print(comparison_table(_side_by_side(summaries)))
    for path in (*written, out / "comparison.json", out / "results.csv"):
        console.print(f"wrote {path}")
    for name, summary in summaries.items():
        sentence = headline(plan_of_run(places[name][-1]).workload, summary)
        console.print(f"\n[bold]{escape(': '.join(filter(None, [name, sentence])))}[/bold]")
        page = out / f"{_joined('report', name)}.html"
        console.print(f"Open {page.resolve().as_uri()} in a browser to see it.", soft_wrap=True)
    if all(set(point.values) == {_DRIVE} for point, _ in work):
        together = over_drives(plan_of_run(work[-1][1].directory).workload, list(summaries.values()))
        if together is not None:
            console.print(f"\n[bold]{escape(together)}[/bold]")


def _variant(plan: Plan, changes: dict[str, Any]) -> Plan:
    """The plan of one method, without settings of other methods.

    Ideal gets a buffer that holds everything a client will ever see.
    """
    from fedagem.learning.methods import find_method
    from fedagem.plans.checks import check_plan
    from fedagem.plans.workload import DrivingWorkload

    method = changes["task_runner.settings.method"]
    taken = find_method(method).Settings.model_fields
    settings = {name: value for name, value in plan.training.method_settings.items() if name in taken}
    own: dict[str, Any] = {"task_runner.settings.method_settings": settings, **changes}
    if method == "ideal":
        if not isinstance(plan.workload, DrivingWorkload):
            raise PlanError(
                "--methods ideal is for driving plans: a benchmark's plan needs its buffer.capacity raised."
            )
        frames = plan.aggregator.rounds_to_train * plan.workload.frames_per_round
        own["task_runner.settings.buffer.capacity"] = frames
    variant = plan.changed(own)
    check_plan(variant)
    return variant


def _side_by_side(summaries: dict[str, Summary]) -> Summary:
    """The points of a sweep in one table, with a row for each point and method."""
    shifts = {summary.shift_round for summary in summaries.values()}
    parts = summaries.items()
    return dataclasses.replace(
        next(iter(summaries.values())),
        shift_round=shifts.pop() if len(shifts) == 1 else None,
        shift_reached=all(summary.shift_reached for summary in summaries.values()),
        methods={_row(name, label): found for name, each in parts for label, found in each.methods.items()},
        tasks={_row(name, label): found for name, each in parts for label, found in each.tasks.items()},
    )


def _row(point: str, label: str) -> str:
    return f"{point}: {label}" if point else label


def _joined(*words: str) -> str:
    """The words that are not empty, as a name."""
    return "-".join(filter(None, words))
