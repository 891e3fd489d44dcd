"""What happens before the rounds: drives are recorded, and the detector learns the first region.

The warm-up stands for the paper's first 60 rounds. Without it a short run meets its domain shift while it is still
learning the city, and it cannot forget what it has not learned.
"""

import os
from pathlib import Path
from typing import Any

from fedagem.learning.model_file import SUFFIX
from fedagem.plans.driving import WarmUp
from fedagem.plans.plan import Plan
from fedagem.runs.drives import drives_before, first_region_replayed, replaying_training_frames, with_evaluation_frames
from fedagem.runs.many_runs import Job, run_jobs
from fedagem.runs.recording import check_recordable, record_drives


def check_preparable(plan: Plan) -> None:
    """Refuse a plan whose drives cannot be recorded here."""
    check_recordable(drives_before(plan, live=True))


def prepare(requested: Plan, live: bool) -> Plan:
    """Record the drives that the plan needs before its rounds; the plan with the frames that were found.

    If the vehicles do not drive live, they replay the recording of their drive.
    """
    record_drives(drives_before(requested, live))
    plan = with_evaluation_frames(requested)
    return plan if live else replaying_training_frames(plan)


def warm_up(plan: Plan, folder: Path = Path("runs")) -> Plan:
    """Train the model that the plan begins with, the first time; the plan with that model. Its drive is recorded.

    It is kept in `folder`. It depends on the seed and on what the methods of a comparison share, so that all of them
    begin with the same.
    """
    if (chosen := plan.pending_warm_up) is None:
        return plan
    training = _training_plan(plan, chosen)
    place = _warm_up_place(training, plan, folder)
    workers = min(os.cpu_count() or 1, len(plan.workload.collaborators))
    run_jobs([Job(f"warm-up, seed {plan.seed}", training, training, place, workers=workers)], parallel=1)
    return _beginning_with(plan, place)


def as_prepared(requested: Plan, folder: Path = Path("runs")) -> Plan:
    """The plan that `prepare` and `warm_up` end with if the vehicles drive live; nothing is recorded or trained."""
    plan = with_evaluation_frames(requested)
    if (chosen := plan.pending_warm_up) is None:
        return plan
    return _beginning_with(plan, _warm_up_place(_training_plan(plan, chosen), plan, folder))


def _warm_up_place(training: Plan, plan: Plan, folder: Path) -> Path:
    return folder.resolve() / f"{plan.name}-warm-up-{training.digest}"


def _beginning_with(plan: Plan, warm_up: Path) -> Plan:
    return plan.changed({"task_runner.settings.initial_model": str(warm_up / "save" / f"last{SUFFIX}")})


def _training_plan(plan: Plan, chosen: WarmUp) -> Plan:
    """The same vehicles, network and step size; only the last model is evaluated."""
    stages = [stage for stage in plan.rounds.stages if stage.rounds != "first"]
    changes: dict[str, Any] = {
        **first_region_replayed(plan, chosen.seconds),
        "data_loader.settings.seconds_per_round": chosen.seconds,
        "data_loader.settings.epochs": 1,
        "aggregator.settings.rounds_to_train": chosen.rounds,
        "aggregator.settings.snapshots": [],
        "assigner.settings.stages": [
            stage.model_dump() | ({"every": chosen.rounds} if "evaluate" in stage.tasks else {}) for stage in stages
        ],
        "task_runner.settings.method": "fedavg",
        "task_runner.settings.method_settings": {},
        "task_runner.settings.fedagem": False,
        "task_runner.settings.buffer": {"capacity": 0},
        "carla": None,
        "driving": None,
        "warm_up": None,
        "network.settings.agg_addr": "auto",  # a federation that moves to another address keeps its model
        "network.settings.agg_port": "auto",
    }
    if chosen.lr is not None:
        end = plan.training.optimizer.lr
        changes["task_runner.settings.optimizer.lr"] = chosen.lr
        changes["task_runner.settings.optimizer.decay"] = (end / chosen.lr) ** (1 / max(chosen.rounds - 1, 1))
    return plan.changed(changes).renamed(f"{plan.name}-warm-up")
