"""Before the federation begins: a detector that knows the first region already, as after the paper's first 60 rounds.

Without it a short run meets its domain shift while it is still learning the city, and what it has not learned it
cannot forget.
"""

import copy
import hashlib
import json
import os
from pathlib import Path

from fedagem.batch import Job, run_jobs
from fedagem.drive import drive_settings, replay_warm_up_frames
from fedagem.plan import Plan


def warm_up(plan: Plan, name: str) -> None:
    """Train the model that the plan begins with, the first time, and point the plan to it.

    It depends on the seed and on what the methods of a comparison share, so that all of them begin with the same.
    """
    chosen = drive_settings(plan).warm_up
    if chosen is None or plan["task_runner"]["settings"].get("initial_model") is not None:
        return
    training = _training_plan(plan, name)
    digest = hashlib.sha256(json.dumps(training, sort_keys=True).encode()).hexdigest()[:10]
    place = (Path(drive_settings(plan).snippets).expanduser() / f"{name}-warm-up-{digest}").resolve()
    seed = plan["data_loader"]["settings"]["seed"]
    workers = min(os.cpu_count() or 1, len(plan["data_loader"]["settings"]["vehicles"]))
    run_jobs([Job(f"warm-up, seed {seed}", training, f"{name}-warm-up", place, workers=workers)], parallel=1)
    plan["task_runner"]["settings"]["initial_model"] = str(place / "save" / "last.pbuf")


def _training_plan(plan: Plan, name: str) -> Plan:
    """FedAvg of the same vehicles; a round is a pass over everything they saw, and only the last one is evaluated."""
    training = copy.deepcopy(plan)
    chosen = drive_settings(plan).warm_up
    assert chosen is not None
    replay_warm_up_frames(training, name, chosen.seconds)
    training["data_loader"]["settings"] |= {"seconds_per_round": chosen.seconds, "epochs": 1}
    training["aggregator"]["settings"] |= {"rounds_to_train": chosen.rounds, "snapshots": []}
    settings = training["task_runner"]["settings"]
    settings |= {"method": "fedavg", "fedagem": False, "buffer": {"capacity": 0}}
    settings.pop("method_settings", None)
    for stage in training["assigner"]["settings"]["stages"]:
        if "evaluate" in stage["tasks"]:
            stage["every"] = chosen.rounds
    for section in ("carla", "driving"):
        del training[section]
    return training
