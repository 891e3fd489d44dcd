"""`fedagem compare`: one plan under several methods and seeds, all on the same frames."""

import json
from pathlib import Path

import click
import yaml
from rich.console import Console

from fedagem.batch import Job, run_jobs
from fedagem.comparison import comparison_table, draw_comparison, summarise_comparison
from fedagem.drive import add_evaluation_frames, is_driving, replay_training_frames
from fedagem.errors import PlanError
from fedagem.methods import METHODS
from fedagem.plan import Plan, change_plan, check_plan, load_plan, set_rounds
from fedagem.report_page import write_page
from fedagem.settings import suggestion


@click.command(name="compare")
@click.argument("plan_path", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--methods", default="ideal,fedavg,der,der+fedagem", show_default=True, help="Comma-separated.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds, from 0 on.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs side by side.")
@click.option("--federated", is_flag=True, help="Real federations of fx processes instead of simulations.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds in all, instead of the plan's number.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the comparison; by default under runs/.")
def command(
    plan_path: Path,
    methods: str,
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
    chosen = {name: method_assignments(name) for name in methods.split(",")}
    plan = load_plan(plan_path)
    change_plan(plan, assignments)
    check_plan(plan)
    if rounds is not None:
        set_rounds(plan, rounds)
        check_plan(plan)
    out = out or Path("runs") / f"{plan_path.stem}-comparison"
    frozen = _freeze(plan, plan_path.stem, out)
    work = [
        Job(
            frozen,
            out / f"{name}-seed{seed}",
            seed,
            _fitting(changes, plan),
            command="run" if federated else "simulate",
        )
        for seed in range(seeds)
        for name, changes in chosen.items()
    ]
    run_jobs(work, jobs)
    summary = summarise_comparison([job.directory for job in work])
    (out / "comparison.json").write_text(json.dumps(summary, indent=2), encoding="utf-8")
    pictures = draw_comparison([job.directory for job in work], out)
    page = write_page([job.directory for job in work], out / "report.html")
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


def _fitting(changes: tuple[str, ...], plan: Plan) -> tuple[str, ...]:
    """Ideal gets a buffer that holds everything a client will ever see."""
    if "task_runner.settings.method=ideal" not in changes:
        return changes
    loader, rounds = plan["data_loader"]["settings"], plan["aggregator"]["settings"]["rounds_to_train"]
    if "seconds_per_round" not in loader:
        raise PlanError("--methods ideal needs task_runner.settings.buffer.capacity raised by hand for this plan.")
    frames = rounds * (int(loader["seconds_per_round"] / loader.get("frame_period", 1.0)) + 1)
    capacity = frames * loader.get("epochs", 1)
    return (*changes, f"task_runner.settings.buffer.capacity={capacity}")


def _freeze(plan: Plan, name: str, out: Path) -> Path:
    """Record the frames where they are driven live, and write the plan that every run starts from."""
    if is_driving(plan):
        if not plan["data_loader"]["settings"].get("evaluation", {}).get("paths"):
            add_evaluation_frames(plan, name)
        if plan["data_loader"]["settings"].get("stream"):
            replay_training_frames(plan, name)
    out.mkdir(parents=True, exist_ok=True)
    frozen = out / f"{name}.yaml"
    text = yaml.safe_dump(plan, sort_keys=False)
    if frozen.exists() and frozen.read_text(encoding="utf-8") != text:
        raise PlanError(f"{frozen} is of another comparison: give this one another folder with --out.")
    frozen.write_text(text, encoding="utf-8")
    return frozen
