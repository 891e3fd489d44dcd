"""What the plan of a drive says: whether there is one, how dense its frames are, when a vehicle is elsewhere."""

import socket
from typing import Any

from fedagem.errors import PlanError
from fedagem.plans.driving import StreamAddress
from fedagem.plans.plan import Plan
from fedagem.settings import parse_settings

_STREAM_SECONDS = 5.0
_EVERYWHERE = "everywhere"
"""The bridge's region for a vehicle that names none."""


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


def schedule_events(section: dict[str, Any]) -> list[dict[str, Any]]:
    """The schedule of a `carla` section, which may be that of a run's frozen plan: it is not taken for checked."""
    events = section.get("schedule", [])
    if not isinstance(events, list) or not all(
        isinstance(event, dict) and isinstance(event.get("at"), (int, float)) for event in events
    ):
        raise PlanError(f"carla.schedule must be a list of events, each with the second `at`, not {events!r}.")
    return events


def _moves_away(section: dict[str, Any]) -> list[dict[str, Any]]:
    """Moves of a vehicle into another region than it begins in."""
    moves = sorted((event for event in schedule_events(section) if "region" in event), key=lambda move: move["at"])
    regions = {vehicle["name"]: vehicle.get("region", _EVERYWHERE) for vehicle in section.get("vehicles") or []}
    regions |= {move["vehicle"]: move["region"] for move in moves if move["at"] <= 0}
    return [move for move in moves if move["at"] > 0 and move["region"] != regions.get(move["vehicle"], _EVERYWHERE)]


def _shows(leg: dict[str, Any]) -> str | list[str]:
    """A leg's domain; the drives themselves stand for it where it has no name."""
    domain: str | list[str] = leg.get("domain") or leg["paths"]
    return domain
