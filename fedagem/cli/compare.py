"""`fedagem compare`: one plan under several methods and seeds, all on the same frames."""

from __future__ import annotations

import dataclasses
import inspect
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedagem.errors import FedAGemError, PlanError

if TYPE_CHECKING:
    from fedagem.plans.plan import Plan

_METHODS = "fedavg,der,der+fedagem"


@click.command(name="compare")
@click.argument("plan_path", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--methods", help=f"Comma-separated; by default {_METHODS}, and for driving plans ideal too.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds, from 0 on.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs at the same time.")
@click.option("--federated", is_flag=True, help="Real federations of fx processes instead of simulations.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds in all, instead of the plan's number.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the comparison; by default under runs/.")
def command(
    plan_path: Path,
    methods: str | None,
    seeds: int,
    jobs: int,
    federated: bool,
    rounds: int | None,
    assignments: tuple[str, ...],
    out: Path | None,
) -> None:
    """Run PLAN under several methods and seeds on the same frames, and draw mAP or accuracy by round.

    Run the same command again to resume it.
    """
    from fedagem.plans.checks import check_plan, check_snippet_paths
    from fedagem.plans.driving import DrivingSettings
    from fedagem.plans.plan import Plan
    from fedagem.plans.workspace import find_plan
    from fedagem.runs.many_runs import Job, run_jobs
    from fedagem.runs.preparation import prepare, warm_up

    requested = Plan.load(find_plan(plan_path)).changed(assignments=assignments, rounds=rounds)
    check_plan(requested)
    check_snippet_paths(requested)
    if methods is None:
        methods = f"ideal,{_METHODS}" if isinstance(requested.data, DrivingSettings) else _METHODS
    chosen = {name.strip(): method_changes(name.strip()) for name in methods.split(",")}
    out = out or Path("runs") / f"{requested.name}-comparison"
    _check_folder(out)
    work: list[Job] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        plan = prepare(requested, live=False)
        for seed in range(seeds):
            beginning = warm_up(plan.changed(seed=seed))
            for name, changes in chosen.items():
                asked, variant = _variant(requested.changed(seed=seed), changes), _variant(beginning, changes)
                work.append(Job(f"{name}, seed {seed}", asked, variant, out / f"{name}-seed{seed}", federated))
        run_jobs(work, jobs)
    except KeyboardInterrupt:
        click.echo("Interrupted; progress is saved. Run the same command again to resume.", err=True)
        raise SystemExit(130) from None
    _present([job.directory for job in work], out)


def method_changes(name: str) -> dict[str, Any]:
    """`der+fedagem` as changes to a plan."""
    from fedagem.learning.methods import METHODS
    from fedagem.settings import suggestion

    method, _, extra = name.partition("+")
    if method not in METHODS or extra not in {"", "fedagem"}:
        known = [*METHODS, *(f"{method}+fedagem" for method in METHODS)]
        raise PlanError(f"--methods has {name!r}{suggestion(name, known)}")
    return {"task_runner.settings.method": method, "task_runner.settings.fedagem": bool(extra)}


def _check_folder(out: Path) -> None:
    """Refuse, before hours of runs, a folder that cannot be made because a file is in its way."""
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise FedAGemError(f"{place} is a file: choose another folder for the comparison (--out).")


def _present(directories: list[Path], out: Path) -> None:
    """Finish the pages of the runs, then write and show what compares them."""
    from rich.console import Console

    from fedagem.cli.finish import illustrate_run
    from fedagem.reports.figures import draw_comparison
    from fedagem.reports.page import write_page
    from fedagem.reports.summary import summarise_runs
    from fedagem.reports.tables import comparison_table

    for directory in directories:
        if not (directory / "report.html").exists():
            illustrate_run(directory)
    summary = summarise_runs(directories)
    (out / "comparison.json").write_text(json.dumps(dataclasses.asdict(summary), indent=2), encoding="utf-8")
    pictures = draw_comparison(directories, out)
    page = write_page(directories, out / "report.html")
    console = Console()
    console.print(comparison_table(summary))
    for path in (*pictures, out / "comparison.json", page):
        console.print(f"wrote {path}")


def _variant(plan: Plan, changes: dict[str, Any]) -> Plan:
    """The plan of one method, without settings of other methods.

    Ideal gets a buffer that holds everything a client will ever see.
    """
    from fedagem.learning.methods import METHODS
    from fedagem.plans.checks import check_plan
    from fedagem.plans.workload import DrivingWorkload

    method = changes["task_runner.settings.method"]
    taken = inspect.signature(METHODS[method]).parameters
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
