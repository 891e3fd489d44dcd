"""Drives that are recorded before the rounds begin, and how a plan finds their frames."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carla_bridge.config.parts import VehicleSettings
from carla_bridge.config.section import CarlaSettings
from carla_bridge.simulator import WORLD_VERSION
from fedagem.errors import PlanError
from fedagem.plans.driving import DriveSettings, DrivingSettings
from fedagem.plans.identity import digest_of
from fedagem.plans.plan import Plan

_STREAM_SECONDS = 5.0
_SNIPPETS = "data_loader.settings.snippets"
_EVALUATION_SEEDS, _WARM_UP_SEED = 1000, 500
"""How far the seeds of other drives are from the plan's: plans with seeds near each other do not share them."""
_NOT_SEEN = {"stream", "timeout_seconds", "traffic_manager_port"}
"""Settings that change how frames travel, but not what they show."""


@dataclass(frozen=True)
class Drive:
    """A drive that is recorded once and replayed by every run that needs it."""

    title: str
    carla: CarlaSettings
    """What is driven."""
    seconds: float
    jpeg_quality: int | None
    folder: str
    """Where recordings are kept, this one under a name that follows from its settings."""

    @property
    def place(self) -> Path:
        """The folder of the recording: other settings or another simulator, another folder."""
        carla = self.carla.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_SEEN)
        recipe = {"carla": carla, "seconds": self.seconds, "jpeg_quality": self.jpeg_quality}
        if self.carla.embedded:
            recipe["world_version"] = WORLD_VERSION
        return (Path(self.folder).expanduser() / f"{self.title}-{digest_of(recipe)}").resolve()

    @property
    def recorded(self) -> bool:
        """Whether the recording is complete."""
        return (self.place / "recording.json").exists()

    @property
    def has_its_own_server(self) -> bool:
        """Whether a simulator is started for it alone; a server that was there before has one world for all."""
        return self.carla.embedded


def drives_before(plan: Plan, live: bool) -> list[Drive]:
    """All drives that must be recorded before the rounds; `live` if the vehicles drive while they learn."""
    if plan.carla is None:
        return []
    drives = []
    if _lacks_evaluation_frames(plan):
        drives += _evaluation_drives(plan)
    if _vehicles(plan).stream is not None and not live:
        drives.append(_training_drive(plan))
    if (chosen := plan.pending_warm_up) is not None:
        drives.append(_warm_up_drive(plan, chosen.seconds))
    return drives


def with_evaluation_frames(plan: Plan) -> Plan:
    """The plan with the frames of its evaluation drive, if it names none to evaluate on."""
    if plan.carla is None or not _lacks_evaluation_frames(plan):
        return plan
    places = [drive.place for drive in _evaluation_drives(plan)]
    paths = {
        region: [str(place / vehicle) for place in places for vehicle in own]
        for region, own in _evaluators(plan).items()
    }
    return plan.changed({"data_loader.settings.evaluation.paths": paths})


def replaying_training_frames(plan: Plan) -> Plan:
    """The plan with vehicles that replay the recording of their drive instead of driving live."""
    if plan.carla is None or _vehicles(plan).stream is None:
        return plan
    return plan.changed(_replay(plan, _training_drive(plan).place, repeat=False))


def first_region_replayed(plan: Plan, seconds: float) -> dict[str, Any]:
    """Settings with which the vehicles replay their first region again and again: a drive, or their first snippets."""
    if plan.carla is not None:
        return _replay(plan, _warm_up_drive(plan, seconds).place, repeat=True)
    data = _vehicles(plan)
    first = {vehicle: legs[0] for vehicle, legs in data.snippets.items()}
    known = {*data.evaluation.paths, *(leg.domain for leg in first.values())}
    return {
        _SNIPPETS: {vehicle: [leg.model_dump()] for vehicle, leg in first.items()},
        "data_loader.settings.domain_rules": {name: rule for name, rule in data.domain_rules.items() if name in known},
    }


def check_stream(plan: Plan) -> None:
    """Refuse to simulate a plan whose frames are driven live while nobody serves them."""
    if not isinstance(plan.data, DrivingSettings) or plan.data.stream is None:
        return
    host, port = plan.data.stream.host, plan.data.stream.port
    try:
        socket.create_connection((host, port), timeout=_STREAM_SECONDS).close()
    except OSError as problem:
        raise PlanError(
            f"nobody serves the plan's frames at {host}:{port} ({problem}): use `fedagem run`, which lets the vehicles "
            "drive, or `fedagem compare`, which records their drive first, or start `carla-bridge serve` there."
        ) from problem


def _vehicles(plan: Plan) -> DrivingSettings:
    assert isinstance(plan.data, DrivingSettings)
    return plan.data


def _lacks_evaluation_frames(plan: Plan) -> bool:
    return not _vehicles(plan).evaluation.paths


def _evaluation_drives(plan: Plan) -> list[Drive]:
    """Drives in other towns than the one that is learned from, each in another one."""
    vehicles = tuple(
        VehicleSettings(name=vehicle, region=region) for region, own in _evaluators(plan).items() for vehicle in own
    )
    drives = []
    for number in range(1, _settings(plan).evaluation_drives + 1):
        carla = _drive_without_moves(plan, seed_offset=_EVALUATION_SEEDS * number)
        carla = carla.model_copy(update={"vehicles": vehicles})
        use = "evaluation" if number == 1 else f"evaluation-{number}"
        drives.append(_drive(plan, use, carla, _settings(plan).evaluation_seconds))
    return drives


def _evaluators(plan: Plan) -> dict[str, list[str]]:
    """The vehicles of an evaluation drive, by their region."""
    settings = _settings(plan)
    numbers = range(1, settings.evaluation_vehicles + 1)
    return {region: [f"{region}_{number}" for number in numbers] for region in settings.evaluation_regions}


def _training_drive(plan: Plan) -> Drive:
    seconds = plan.aggregator.rounds_to_train * _vehicles(plan).seconds_per_round
    return _drive(plan, "drive", _carla(plan), seconds)


def _warm_up_drive(plan: Plan, seconds: float) -> Drive:
    return _drive(plan, "warm-up", _drive_without_moves(plan, seed_offset=_WARM_UP_SEED), seconds)


def _drive(plan: Plan, use: str, carla: CarlaSettings, seconds: float) -> Drive:
    settings = _settings(plan)
    return Drive(f"{plan.name}-{use}", carla, seconds, settings.jpeg_quality, settings.snippets)


def _settings(plan: Plan) -> DriveSettings:
    if plan.driving is None:
        raise PlanError("a plan with a carla section needs a driving section: see plan/carla.yaml.")
    return plan.driving


def _carla(plan: Plan) -> CarlaSettings:
    assert plan.carla is not None
    return plan.carla


def _drive_without_moves(plan: Plan, seed_offset: int) -> CarlaSettings:
    """Another drive in the same world: the vehicles stay in their regions."""
    carla = _carla(plan)
    weather = tuple(event for event in carla.schedule if event.weather is not None)
    return carla.model_copy(update={"schedule": weather, "seed": (carla.seed + seed_offset) % 2**31})


def _replay(plan: Plan, place: Path, repeat: bool) -> dict[str, Any]:
    """Settings with which the plan's vehicles replay a recording instead of driving live."""
    legs = {v: [{"paths": [str(place / v)], "repeat": repeat}] for v in _vehicles(plan).vehicles}
    return {"data_loader.settings.stream": None, _SNIPPETS: legs}
