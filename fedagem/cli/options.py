"""The options that every command that runs a plan shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedagem.reports.tracking import TRACKERS

if TYPE_CHECKING:
    from fedagem.plans.plan import Plan


@dataclass(frozen=True)
class RunRequest:
    """What the user asked for."""

    plan_path: Path
    rounds: int | None
    seed: int | None
    assignments: tuple[str, ...]
    out: Path | None
    resume: bool
    track: tuple[str, ...] = ()
    keep_received: bool = False
    detector: str | None = None

    def open_run(self, *checks: Callable[[Plan], None]) -> tuple[Path, Plan]:
        """The run's folder, new or resumed, and its plan, which must pass the command's own checks too."""
        from fedagem.plans.checks import check_plan, check_snippet_paths, with_located_model
        from fedagem.plans.detectors import with_detector
        from fedagem.plans.plan import Plan
        from fedagem.plans.workspace import find_plan
        from fedagem.runs.folder import create_run, resume_run

        check_trackers(self.track)
        loaded = Plan.load(find_plan(self.plan_path))
        if self.detector is not None:
            loaded = with_detector(loaded, self.detector)
        kept = {"aggregator.settings.keep_received": True} if self.keep_received else {}
        plan = loaded.changed(kept, assignments=self.assignments, seed=self.seed, rounds=self.rounds)
        for check in (check_plan, check_snippet_paths, *checks):
            check(plan)
        plan = with_located_model(plan)
        directory = self.out or Path("runs") / plan.run_name
        if self.resume:
            resume_run(directory, plan)
        else:
            create_run(directory, plan)
        return directory, plan


def track_option(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the trackers that its runs are shown in."""
    text = "Show runs in this tracker, too; repeatable. Packages: `pip install 'fedagem[mlflow]'`, `'fedagem[wandb]'`."
    return click.option("--track", type=click.Choice(TRACKERS), multiple=True, help=text)(command)


def check_trackers(kinds: tuple[str, ...]) -> None:
    """Refuse trackers whose packages are missing."""
    if kinds:
        from fedagem.reports.tracking.tracked_run import require_tracker

        for kind in kinds:
            require_tracker(kind)


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with PLAN and the options of a run; it is called with a RunRequest and its own options."""

    @click.argument("plan", type=click.Path(path_type=Path))
    @click.option("--rounds", type=click.IntRange(min=1), help="Rounds in all, instead of the plan's number.")
    @click.option("--seed", type=click.IntRange(min=0), help="The seed of the run, instead of the plan's.")
    @click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
    @click.option("--out", type=click.Path(path_type=Path), help="The run's folder; by default under runs/.")
    @click.option("--resume", is_flag=True, help="Resume a run that was interrupted.")
    @track_option
    @click.option("--keep-received", is_flag=True, help="Keep what the aggregator receives, for `fedagem audit`.")
    @click.option(
        "--detector",
        type=click.Choice(["tinyyolo", "ssdlite"]),
        help="Train this network, with the objective that fits it, instead of the plan's.",
    )
    def wrapper(plan: Path, **options: Any) -> None:
        shared = {field.name: options.pop(field.name) for field in fields(RunRequest) if field.name in options}
        command(RunRequest(plan_path=plan, **shared), **options)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper
