"""Before the federation begins: a detector that knows the first region already, as after the paper's first 60 rounds.

Without it a short run meets its domain shift while it is still learning the city, and what it has not learned it
cannot forget.
"""

import copy
import os
from pathlib import Path

from fedagem.errors import FedAGemError
from fedagem.learning.model_file import SUFFIX
from fedagem.runs.many_runs import Job, run_jobs
from fedagem.plans.driving import WarmUp, warm_up_of
from fedagem.plans.plan import Plan, digest_of
from fedagem.runs.drives import replay_first_region


def warm_up(plan: Plan, name: str) -> None:
    """Train the model that the plan begins with, the first time, and point the plan to it; its drive is recorded.

    It depends on the seed and on what the methods of a comparison share, so that all of them begin with the same.
    """
    if (chosen := warm_up_of(plan)) is None:
        return
    loader = plan["data_loader"]["settings"]
    training = _training_plan(plan, name, chosen)
    place = Path("runs").resolve() / f"{name}-warm-up-{digest_of(training)}"
    workers = min(os.cpu_count() or 1, len(loader["vehicles"]))
    job = Job(f"warm-up, seed {loader['seed']}", training, f"{name}-warm-up", place, workers=workers)
    run_jobs([job], parallel=1)
    model = place / "save" / f"last{SUFFIX}"
    if not model.exists():
        raise FedAGemError(f"{place} was trained by an earlier version, without {model.name}: remove it to train it again.")
    plan["task_runner"]["settings"]["initial_model"] = str(model)


def _training_plan(plan: Plan, name: str, chosen: WarmUp) -> Plan:
    """The same vehicles, network and step size; only the last model is evaluated."""
    training = copy.deepcopy(plan)
    replay_first_region(training, name, chosen.seconds)
    training["data_loader"]["settings"] |= {"seconds_per_round": chosen.seconds, "epochs": 1}
    training["aggregator"]["settings"] |= {"rounds_to_train": chosen.rounds, "snapshots": []}
    settings = training["task_runner"]["settings"]
    settings |= {"method": "fedavg", "fedagem": False, "buffer": {"capacity": 0}}
    if chosen.lr is not None:
        end = settings["optimizer"]["lr"]
        decay = (end / chosen.lr) ** (1 / max(chosen.rounds - 1, 1))
        settings["optimizer"] |= {"lr": chosen.lr, "decay": decay}
    for unused in ("method_settings", "buffer_gradient_samples"):
        settings.pop(unused, None)
    rounds = training["assigner"]["settings"]
    rounds["stages"] = [stage for stage in rounds["stages"] if stage.get("rounds") != "first"]
    for stage in rounds["stages"]:
        if "evaluate" in stage["tasks"]:
            stage["every"] = chosen.rounds
    for section in ("carla", "driving", "warm_up"):
        training.pop(section, None)
    return training
