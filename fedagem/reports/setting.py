"""The setting of a page: what a reader must know about the plans to judge their numbers."""

from collections.abc import Callable, Sequence
from typing import Any

from fedagem.learning.methods import METHODS
from fedagem.plans.drive import frames_per_second, is_driving
from fedagem.plans.driving import DriveSettings
from fedagem.plans.plan import Plan
from fedagem.reports.summary import Summary, label_of_plan
from fedagem.settings import parse_settings


def setting_of(plans: Sequence[Plan], name: str, summary: Summary) -> dict[str, str]:
    """Facts by their names; facts that the plans do not state are left out."""
    plan = plans[-1]
    loader, training = plan["data_loader"]["settings"], plan["task_runner"]["settings"]
    shift = summary.shift_round
    facts = {
        "plan": name,
        "clients": ", ".join(loader.get("vehicles", [])) or loader.get("clients"),
        "frames from": _frames_from(plan),
        "seed of the drive": plan["carla"].get("seed", 0) if is_driving(plan) else None,
        "evaluated on": _evaluated_on(plan),
        "rounds": plan.get("aggregator", {}).get("settings", {}).get("rounds_to_train"),
        "shift at round": f"{shift} (not reached)" if shift is not None and not summary.shift_reached else shift,
        "seconds per round": loader.get("seconds_per_round"),
        "begins with": _beginning(plan),
        "model": training["model"]["template"],
        "method's settings": _by_method(plans, _method_settings),
        "buffer": _by_method(plans, lambda own: str(own.get("buffer", {}).get("capacity", 200))),
        "samples of a buffer gradient": _by_method(plans, _buffer_gradient),
        "optimiser": _listed(training.get("optimizer", {})),
        "seeds": ", ".join(map(str, summary.seeds)),
    }
    return {key: str(value) for key, value in facts.items() if value not in (None, "")}


def _by_method(plans: Sequence[Plan], setting: Callable[[dict[str, Any]], str]) -> str:
    """A setting of the methods: one value for all of them, or each value with its method."""
    found = {label_of_plan(plan): setting(plan["task_runner"]["settings"]) for plan in plans}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{value} ({label})" for label, value in found.items() if value)


def _method_settings(training: dict[str, Any]) -> str:
    """Only what the method makes use of: every method accepts a replay batch, but not every one replays."""
    replays = METHODS[training.get("method", "fedavg")].replays
    chosen = training.get("method_settings", {})
    return _listed({name: value for name, value in chosen.items() if replays or name != "replay_batch"})


def _buffer_gradient(training: dict[str, Any]) -> str:
    return str(training.get("buffer_gradient_samples", "")) if training.get("fedagem", True) else ""


def _frames_from(plan: Plan) -> str | None:
    if is_driving(plan):
        carla = plan["carla"]
        server = f"CARLA at {carla.get('host')}:{carla.get('port', 2000)}"
        place = f"the {carla['simulator']} simulator" if carla.get("simulator") else server
        return f"{place}, {carla['town']}" if carla.get("town") else place
    legs = [leg for legs in plan["data_loader"]["settings"].get("snippets", {}).values() for leg in legs]
    return ", ".join(dict.fromkeys(path for leg in legs for path in leg["paths"])) or None


def _evaluated_on(plan: Plan) -> str | None:
    if plan.get("driving"):
        drive = parse_settings(DriveSettings, plan["driving"], "driving")
        seconds, vehicles = drive.evaluation_seconds, drive.evaluation_vehicles
        frames = seconds * vehicles * frames_per_second(plan)
        regions = " and ".join(drive.evaluation_regions)
        return f"about {frames:g} frames each of {regions}: {vehicles} x {seconds:g} s of driving"
    evaluation = plan["data_loader"]["settings"].get("evaluation", {})
    folders = "; ".join(f"{domain}: {', '.join(paths)}" for domain, paths in evaluation.get("paths", {}).items())
    held_out = " (only frames kept out of training)" if evaluation.get("held_out_only") else ""
    return f"{folders}{held_out}" if folders else None


def _beginning(plan: Plan) -> str | None:
    if chosen := plan.get("warm_up"):
        return f"a model warmed up by {chosen['rounds']} passes over {chosen['seconds']} s of the first region"
    given = plan["task_runner"]["settings"].get("initial_model")
    return f"the model {given}" if given else None


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())
