"""Refuses a drive that cannot work, or that the federation could not learn from, before anybody drives.

The `carla` section is read by the bridge's own parser, which needs no CARLA: whatever it would refuse after a start,
it refuses here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fedagem.driving import DriveSettings
from fedagem.errors import PlanError
from fedagem.settings import parse_settings, suggestion

if TYPE_CHECKING:
    from carla_bridge.config.section import CarlaSettings

_LOADER = "src.driving_loader.DrivingLoader"


def check_drive(plan: dict[str, Any]) -> None:
    """Refuse sections of a drive that are missing, wrong, or at odds with what the vehicles are to learn from."""
    loader = plan["data_loader"]["settings"]
    drives = plan["data_loader"]["template"] == _LOADER
    if "carla" not in plan:
        if drives and loader.get("stream") is not None:
            raise PlanError(
                "data_loader.settings.stream needs a carla section, which says what the vehicles do: see "
                "plan/carla.yaml, or replay recorded drives with data_loader.settings.snippets."
            )
        if "driving" in plan:
            raise PlanError("driving needs a carla section: add one, see plan/carla.yaml, or leave driving out.")
        return
    if not drives:
        raise PlanError(f"carla is for driving plans, whose data_loader.template is {_LOADER}.")
    fleet = _fleet(plan["carla"])
    _check_vehicles(fleet, loader["vehicles"])
    _check_classes(fleet, loader["classes"])
    _check_windows(fleet, loader)
    _check_recordings(plan, fleet)


def _fleet(section: dict[str, Any]) -> CarlaSettings:
    from carla_bridge.config.section import CarlaSettings

    return parse_settings(CarlaSettings, section, "carla")


def _check_vehicles(fleet: CarlaSettings, wanted: Collection[str]) -> None:
    driven = [vehicle.name for vehicle in fleet.vehicles]
    for name in wanted:
        if name not in driven:
            raise PlanError(f"data_loader.settings.vehicles has {name!r}, carla.vehicles not{suggestion(name, driven)}")


def _check_classes(fleet: CarlaSettings, classes: list[str]) -> None:
    """Labels are numbers: both need the same classes in the same order."""
    if list(fleet.class_names) != classes:
        raise PlanError(
            f"carla.classes are {', '.join(fleet.class_names)}, but data_loader.settings.classes are "
            f"{', '.join(classes)}: give both the same, in the same order."
        )


def _check_windows(fleet: CarlaSettings, loader: dict[str, Any]) -> None:
    longest = fleet.stream.window_seconds
    if loader.get("stream") is not None and loader["seconds_per_round"] > longest:
        raise PlanError(
            f"data_loader.settings.seconds_per_round is {loader['seconds_per_round']}, but the longest window that "
            f"may be asked for is {longest:g} s: raise carla.stream.window_seconds."
        )


def _check_recordings(plan: dict[str, Any], fleet: CarlaSettings) -> None:
    """What is recorded before the federation begins: evaluation frames that the plan does not name, and a warm-up."""
    named = plan["data_loader"]["settings"].get("evaluation", {}).get("paths")
    if "driving" not in plan:
        if not named or "warm_up" in plan:
            raise PlanError("a plan with a carla section needs a driving section: see plan/carla.yaml.")
        return
    settings = parse_settings(DriveSettings, plan["driving"], "driving")
    for region in settings.evaluation_regions:
        if not named and region not in fleet.regions:
            raise PlanError(f"driving.evaluation_regions has {region!r}{suggestion(region, fleet.regions)}")
