"""`fedagem compare`: one plan under several methods and seeds, all on the same frames."""

import copy
import dataclasses
import inspect
import json
import signal
from pathlib import Path

import click
from rich.console import Console

from fedagem.cli.finish import illustrate_run
from fedagem.errors import FedAGemError, PlanError
from fedagem.learning.methods import METHODS
from fedagem.plans.drive import frames_per_second, is_driving
from fedagem.plans.plan import Plan, change_plan, check_plan, check_sections, load_plan, set_rounds, set_seed
from fedagem.plans.snippet_paths import check_snippet_paths
from fedagem.reports.figures import draw_comparison
from fedagem.reports.page import write_page
from fedagem.reports.summary import summarise_runs
from fedagem.reports.tables import comparison_table
from fedagem.runs.drives import add_evaluation_frames, drives_before, replay_training_frames
from fedagem.runs.many_runs import Job, run_jobs
from fedagem.runs.preparation import warm_up
from fedagem.runs.recording import record_drives
from fedagem.settings import suggestion

_METHODS = "fedavg,der,der+fedagem"


@click.command(name="compare")
@click.argument("plan_path", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--methods", help=f"Comma-separated; by default {_METHODS}, and for driving plans ideal too.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds, from 0 on.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs side by side.")
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

    Called again, it goes on where it stopped.
    """
    plan = load_plan(plan_path)
    change_plan(plan, assignments)
    check_sections(plan)
    if rounds is not None:
        set_rounds(plan, rounds)
    check_plan(plan)
    check_snippet_paths(plan)
    if methods is None:
        methods = f"ideal,{_METHODS}" if "vehicles" in plan["data_loader"]["settings"] else _METHODS
    chosen = {name.strip(): method_assignments(name.strip()) for name in methods.split(",")}
    out = out or Path("runs") / f"{plan_path.stem}-comparison"
    _check_folder(out)
    work: list[Job] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        record_drives(drives_before(plan, plan_path.stem, live=False))
        if is_driving(plan):
            add_evaluation_frames(plan, plan_path.stem)
            replay_training_frames(plan, plan_path.stem)
        for seed in range(seeds):
            set_seed(plan, seed)
            beginning = copy.deepcopy(plan)
            warm_up(beginning, plan_path.stem)
            for name, changes in chosen.items():
                variant, directory = _variant(beginning, changes), out / f"{name}-seed{seed}"
                work.append(Job(f"{name}, seed {seed}", variant, plan_path.stem, directory, federated))
        run_jobs(work, jobs)
    except KeyboardInterrupt:
        click.echo("Stopped; nothing is lost. The same command goes on from here.", err=True)
        raise SystemExit(130) from None
    directories = [job.directory for job in work]
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


def method_assignments(name: str) -> tuple[str, ...]:
    """`der+fedagem` as changes to a plan."""
    method, _, extra = name.partition("+")
    if method not in METHODS or extra not in {"", "fedagem"}:
        known = [*METHODS, *(f"{method}+fedagem" for method in METHODS)]
        raise PlanError(f"--methods has {name!r}{suggestion(name, known)}")
    fedagem = "true" if extra else "false"
    return (f"task_runner.settings.method={method}", f"task_runner.settings.fedagem={fedagem}")


def _check_folder(out: Path) -> None:
    """Refuse, before hours of runs, a folder that cannot be made because a file is in its way."""
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise FedAGemError(f"{place} is a file: choose another folder for the comparison (--out).")


def _variant(plan: Plan, changes: tuple[str, ...]) -> Plan:
    """The plan of one method, without settings of other methods.

    Ideal gets a buffer that holds everything a client will ever see.
    """
    variant = copy.deepcopy(plan)
    change_plan(variant, changes)
    training, loader = variant["task_runner"]["settings"], variant["data_loader"]["settings"]
    taken = inspect.signature(METHODS[training["method"]]).parameters
    settings = training.get("method_settings", {})
    training["method_settings"] = {name: value for name, value in settings.items() if name in taken}
    if training["method"] == "ideal":
        if "seconds_per_round" not in loader:
            raise PlanError(
                "--methods ideal is for driving plans: a benchmark's plan needs its buffer.capacity raised."
            )
        frames = int(loader["seconds_per_round"] * frames_per_second(variant)) + 1
        rounds = variant["aggregator"]["settings"]["rounds_to_train"]
        training.setdefault("buffer", {})["capacity"] = rounds * frames
    check_plan(variant)
    return variant
