"""Frames that are recorded before the rounds begin: which drives they come from, and how a plan finds them."""

import copy
from pathlib import Path
from typing import Any

from fedagem.plans.drive import is_driving, schedule_events
from fedagem.plans.driving import DriveSettings, warm_up_of
from fedagem.errors import PlanError
from fedagem.plans.plan import Plan
from fedagem.runs.recorded_drive import Drive
from fedagem.settings import parse_settings


def drives_before(plan: Plan, name: str, live: bool) -> list[Drive]:
    """All drives that must be recorded before the rounds; `live` where the vehicles drive while they learn."""
    if not is_driving(plan):
        return []
    loader, drives = plan["data_loader"]["settings"], []
    if _lacks_evaluation_frames(plan):
        drives.append(_evaluation_drive(plan, name))
    if loader.get("stream") and not live:
        drives.append(_training_drive(plan, name))
    if (chosen := warm_up_of(plan)) is not None:
        drives.append(_warm_up_drive(plan, name, chosen.seconds))
    return drives


def add_evaluation_frames(plan: Plan, name: str) -> None:
    """Point a plan without frames to evaluate on to those of its evaluation drive."""
    if _lacks_evaluation_frames(plan):
        place = _evaluation_drive(plan, name).place
        paths = {region: [str(place / vehicle) for vehicle in own] for region, own in _evaluators(plan).items()}
        plan["data_loader"]["settings"].setdefault("evaluation", {})["paths"] = paths


def replay_training_frames(plan: Plan, name: str) -> None:
    """Let the vehicles replay the recording of their drive instead of driving live."""
    if plan["data_loader"]["settings"].get("stream"):
        _replay(plan, _training_drive(plan, name).place, repeat=False)


def replay_first_region(plan: Plan, name: str, seconds: float) -> None:
    """Let the vehicles replay their first region again and again: a drive of its own, or their first snippets."""
    if is_driving(plan):
        _replay(plan, _warm_up_drive(plan, name, seconds).place, repeat=True)
        return
    for legs in plan["data_loader"]["settings"]["snippets"].values():
        del legs[1:]


def _lacks_evaluation_frames(plan: Plan) -> bool:
    return not plan["data_loader"]["settings"].get("evaluation", {}).get("paths")


def _evaluation_drive(plan: Plan, name: str) -> Drive:
    section = _drive_without_moves(plan, seed_offset=1)
    section["vehicles"] = [
        {"name": vehicle, "region": region} for region, own in _evaluators(plan).items() for vehicle in own
    ]
    return _drive(plan, f"{name}-evaluation", section, _settings(plan).evaluation_seconds)


def _evaluators(plan: Plan) -> dict[str, list[str]]:
    """The vehicles of the evaluation drive, by their region."""
    settings = _settings(plan)
    numbers = range(1, settings.evaluation_vehicles + 1)
    return {region: [f"{region}_{number}" for number in numbers] for region in settings.evaluation_regions}


def _training_drive(plan: Plan, name: str) -> Drive:
    rounds, loader = plan["aggregator"]["settings"]["rounds_to_train"], plan["data_loader"]["settings"]
    return _drive(plan, f"{name}-drive", plan["carla"], rounds * loader["seconds_per_round"])


def _warm_up_drive(plan: Plan, name: str, seconds: float) -> Drive:
    return _drive(plan, f"{name}-warm-up", _drive_without_moves(plan, seed_offset=2), seconds)


def _drive(plan: Plan, title: str, section: dict[str, Any], seconds: float) -> Drive:
    settings = _settings(plan)
    return Drive(title, section, seconds, settings.jpeg_quality, settings.snippets)


def _settings(plan: Plan) -> DriveSettings:
    if "driving" not in plan:
        raise PlanError("a plan with a carla section needs a driving section: see plan/carla.yaml.")
    return parse_settings(DriveSettings, plan["driving"], "driving")


def _drive_without_moves(plan: Plan, seed_offset: int) -> dict[str, Any]:
    """Another drive in the same world: the vehicles stay in their regions."""
    section: dict[str, Any] = copy.deepcopy(plan["carla"])
    section["schedule"] = [event for event in schedule_events(section) if "weather" in event]
    section["seed"] = _seed(section) + seed_offset
    return section


def _seed(section: dict[str, Any]) -> int:
    seed = section.get("seed", 0)
    if not isinstance(seed, int):
        raise PlanError(f"carla.seed must be a whole number, not {seed!r}.")
    return seed


def _replay(plan: Plan, place: Path, repeat: bool) -> None:
    """Let the plan's vehicles replay a recording instead of driving live."""
    loader = plan["data_loader"]["settings"]
    loader.pop("stream", None)
    loader["snippets"] = {v: [{"paths": [str(place / v)], "repeat": repeat}] for v in loader["vehicles"]}
