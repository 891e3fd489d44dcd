"""What a driving plan needs around the federation: recorded frames to evaluate on, and a fleet that drives.

CARLA is reached through the `carla-bridge` command only.
"""

import copy
import fcntl
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from fedagem.driving import DriveSettings, StreamAddress
from fedagem.errors import FedAGemError, PlanError
from fedagem.plan import Plan, digest_of
from fedagem.settings import parse_settings

_STREAM_SECONDS = 5.0
_EVERYWHERE = "everywhere"
"""The bridge's region for a vehicle that names none."""
_BRIDGE = str(Path(sys.executable).with_name("carla-bridge"))


def is_driving(plan: Plan) -> bool:
    """Whether the plan's frames come from a CARLA server."""
    return "carla" in plan


def frames_per_second(plan: Plan) -> float:
    """How many frames a vehicle gets in a simulation second: the drive's, or those of snippets without time stamps."""
    if is_driving(plan):
        return float(plan["carla"].get("frames_per_second", 1.0))
    return 1 / float(plan["data_loader"]["settings"].get("frame_period", 1.0))


def shift_round(plan: Plan) -> int | None:
    """The first round in which a vehicle is in another domain than at the beginning."""
    settings = plan["data_loader"]["settings"]
    if is_driving(plan):
        moves = [move["at"] for move in _moves_away(plan["carla"])]
        return int(min(moves) // settings["seconds_per_round"]) if moves else None
    later = [
        leg["from_round"]
        for first, *others in settings.get("snippets", {}).values()
        for leg in others
        if _shows(leg) != _shows(first)
    ]
    return min(later, default=None)


def add_evaluation_frames(plan: Plan, name: str) -> None:
    """Record the evaluation drive the first time, and point a plan without one to it."""
    if plan["data_loader"]["settings"].get("evaluation", {}).get("paths"):
        return
    settings = _settings(plan)
    section = _drive_without_moves(plan, seed_offset=1)
    numbers = range(1, settings.evaluation_vehicles + 1)
    names = {region: [f"{region}_{number}" for number in numbers] for region in settings.evaluation_regions}
    section["vehicles"] = [{"name": name, "region": region} for region in names for name in names[region]]
    place = _record(section, settings, settings.evaluation_seconds, f"{name}-evaluation")
    paths = {region: [str(place / name) for name in names[region]] for region in names}
    plan["data_loader"]["settings"].setdefault("evaluation", {})["paths"] = paths


def replay_training_frames(plan: Plan, name: str) -> None:
    """Record the whole drive the first time, and let the vehicles replay it instead of driving live."""
    if not plan["data_loader"]["settings"].get("stream"):
        return
    settings, loader = _settings(plan), plan["data_loader"]["settings"]
    seconds = plan["aggregator"]["settings"]["rounds_to_train"] * loader["seconds_per_round"]
    _replay(plan, _record(plan["carla"], settings, seconds, f"{name}-drive"), repeat=False)


def replay_first_region(plan: Plan, name: str, seconds: float) -> None:
    """Let the vehicles replay their first region again and again: a drive of its own, or their first snippets."""
    if not is_driving(plan):
        for legs in plan["data_loader"]["settings"]["snippets"].values():
            del legs[1:]
        return
    section = _drive_without_moves(plan, seed_offset=2)
    _replay(plan, _record(section, _settings(plan), seconds, f"{name}-warm-up"), repeat=True)


def check_stream(plan: Plan) -> None:
    """Refuse to simulate a plan whose frames are driven live while nobody drives them."""
    stream = plan["data_loader"]["settings"].get("stream")
    if stream is None:
        return
    address = parse_settings(StreamAddress, stream, "data_loader.settings.stream")
    host, port = address.host, address.port
    try:
        socket.create_connection((host, port), timeout=_STREAM_SECONDS).close()
    except OSError as problem:
        raise PlanError(
            f"nobody serves the plan's frames at {host}:{port} ({problem}): use `fedagem run`, which lets the vehicles "
            "drive, or `fedagem compare`, which records their drive first, or start `carla-bridge serve` there."
        ) from problem


def fleet_command(plan_file: str, port: int, ready_file: str) -> list[str]:
    """The process that drives the vehicles and serves their frames on this machine."""
    return [_BRIDGE, "serve", "--plan", plan_file, "--listen", f"127.0.0.1:{port}", "--ready-file", ready_file]


def _events(section: dict[str, Any]) -> list[dict[str, Any]]:
    """The schedule of a `carla` section, which may be that of a run's frozen plan: it is not taken for checked."""
    events = section.get("schedule", [])
    if not isinstance(events, list) or not all(
        isinstance(event, dict) and isinstance(event.get("at"), (int, float)) for event in events
    ):
        raise PlanError(f"carla.schedule must be a list of events, each with the second `at`, not {events!r}.")
    return events


def _moves_away(section: dict[str, Any]) -> list[dict[str, Any]]:
    """Moves of a vehicle into another region than it begins in."""
    moves = sorted((event for event in _events(section) if "region" in event), key=lambda move: move["at"])
    regions = {vehicle["name"]: vehicle.get("region", _EVERYWHERE) for vehicle in section.get("vehicles") or []}
    regions |= {move["vehicle"]: move["region"] for move in moves if move["at"] <= 0}
    return [move for move in moves if move["at"] > 0 and move["region"] != regions.get(move["vehicle"], _EVERYWHERE)]


def _shows(leg: dict[str, Any]) -> str | list[str]:
    """A leg's domain; the drives themselves stand for it where it has no name."""
    domain: str | list[str] = leg.get("domain") or leg["paths"]
    return domain


def _seed(section: dict[str, Any]) -> int:
    seed = section.get("seed", 0)
    if not isinstance(seed, int):
        raise PlanError(f"carla.seed must be a whole number, not {seed!r}.")
    return seed


def _settings(plan: Plan) -> DriveSettings:
    if "driving" not in plan:
        raise PlanError("a plan with a carla section needs a driving section: see plan/carla.yaml.")
    return parse_settings(DriveSettings, plan["driving"], "driving")


def _drive_without_moves(plan: Plan, seed_offset: int) -> dict[str, Any]:
    """Another drive in the same world: the vehicles stay in their regions."""
    section: dict[str, Any] = copy.deepcopy(plan["carla"])
    section["schedule"] = [event for event in _events(section) if "weather" in event]
    section["seed"] = _seed(section) + seed_offset
    return section


def _replay(plan: Plan, place: Path, repeat: bool) -> None:
    """Let the plan's vehicles replay a recording instead of driving live."""
    loader = plan["data_loader"]["settings"]
    loader.pop("stream", None)
    loader["snippets"] = {v: [{"paths": [str(place / v)], "repeat": repeat}] for v in loader["vehicles"]}


def _record(section: dict[str, Any], settings: DriveSettings, seconds: float, name: str) -> Path:
    """A recording of this drive; one made before with the same settings is used again, an unfinished one finished."""
    recipe = {"carla": section, "seconds": seconds, "jpeg_quality": settings.jpeg_quality}
    place = (Path(settings.snippets).expanduser() / f"{name}-{digest_of(recipe)}").resolve()
    if (place / "recording.json").exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # who records the same drive at the same time finds it done
        if not (place / "recording.json").exists():
            _drive(section, settings, seconds, place, lock.fileno())
        if not (place / "recording.json").exists():
            raise FedAGemError(
                f"the drive {name} could not be recorded (see above); what was recorded is kept in {place}."
            )
    return place


def _drive(section: dict[str, Any], settings: DriveSettings, seconds: float, place: Path, lock: int) -> None:
    """Let the bridge record; it keeps the lock where this process is killed and it goes on alone."""
    plan_file = place.with_suffix(".yaml")
    plan_file.write_text(yaml.safe_dump({"carla": section}, sort_keys=False), encoding="utf-8")
    command = [_BRIDGE, "record", "--plan", str(plan_file), "--seconds", f"{seconds:g}", "--out", str(place)]
    command += ["--resume"]
    if settings.jpeg_quality is not None:
        command += ["--jpeg-quality", str(settings.jpeg_quality)]
    subprocess.run(command, check=False, pass_fds=[lock])
