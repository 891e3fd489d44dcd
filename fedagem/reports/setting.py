"""The setting of a page: what a reader must know about the plans to judge their numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedagem.learning.methods import METHODS
from fedagem.learning.methods.method import ReplaySettings
from fedagem.learning.trainer import TrainingSettings
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.workload import DrivingWorkload
from fedagem.reports.summary import Summary


def setting_of(plans: Sequence[Plan], summary: Summary) -> dict[str, str]:
    """Facts by their names; facts that the plans do not state are left out."""
    plan = plans[-1]
    data, shift = plan.data, summary.shift_round
    facts = {
        "plan": plan.name,
        "clients": ", ".join(data.vehicles) if isinstance(data, DrivingSettings) else data.clients,
        "frames from": _frames_from(plan),
        "seed of the drive": plan.carla.seed if plan.carla is not None else None,
        "evaluated on": _evaluated_on(plan),
        "rounds": plan.aggregator.rounds_to_train,
        "shift at round": f"{shift} (not reached)" if shift is not None and not summary.shift_reached else shift,
        "seconds per round": f"{data.seconds_per_round:g}" if isinstance(data, DrivingSettings) else None,
        "begins with": _beginning(plan),
        "model": plan.training.model.template,
        "method's settings": _by_method(plans, _method_settings),
        "samples in a step": _by_method(plans, lambda training: _samples_in_a_step(training, data.batch_size)),
        "buffer": _by_method(plans, _buffer),
        "samples of a buffer gradient": _by_method(plans, _buffer_gradient),
        "optimiser": _listed(plan.training.optimizer.model_dump(exclude_defaults=True)),
        "seeds": ", ".join(map(str, summary.seeds)),
    }
    return {key: str(value) for key, value in facts.items() if value not in (None, "")}


def _by_method(plans: Sequence[Plan], setting: Callable[[TrainingSettings], str]) -> str:
    """A setting of the methods: one value for all of them, or each value with its method."""
    found = {plan.label: setting(plan.training) for plan in plans}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{value} ({label})" for label, value in found.items() if value)


def _method_settings(training: TrainingSettings) -> str:
    return _listed(training.method_settings)


def _samples_in_a_step(training: TrainingSettings, batch_size: int) -> str:
    """Of the batch and of the buffer: a method that replays computes more in a step than one that does not."""
    method = METHODS.get(training.method)
    if method is None or not issubclass(method.Settings, ReplaySettings):
        return str(batch_size)
    replayed: int = method(**training.method_settings).settings.replay_batch
    return str(batch_size + replayed)


def _buffer(training: TrainingSettings) -> str:
    single = _listed(training.buffer.by_client)
    return f"{training.buffer.capacity}{f', but {single}' if single else ''}"


def _buffer_gradient(training: TrainingSettings) -> str:
    return str(training.buffer_gradient_samples) if training.fedagem else ""


def _frames_from(plan: Plan) -> str | None:
    if (carla := plan.carla) is not None:
        place = "the embedded simulator" if carla.embedded else f"CARLA at {carla.host}:{carla.port}"
        return f"{place}, {carla.town}" if carla.town else place
    if not isinstance(plan.data, DrivingSettings):
        return None
    legs = [leg for legs in plan.data.snippets.values() for leg in legs]
    return ", ".join(dict.fromkeys(path for leg in legs for path in leg.paths)) or None


def _evaluated_on(plan: Plan) -> str | None:
    if plan.driving is not None and isinstance(plan.workload, DrivingWorkload):
        seconds, vehicles = plan.driving.evaluation_seconds, plan.driving.evaluation_vehicles
        drives = plan.driving.evaluation_drives
        frames = drives * seconds * vehicles * plan.workload.frames_per_second
        regions = " and ".join(plan.driving.evaluation_regions)
        towns = f"{drives} towns x " if drives > 1 else ""
        return f"about {frames:g} frames each of {regions}: {towns}{vehicles} x {seconds:g} s of driving"
    if not isinstance(plan.data, DrivingSettings):
        return None
    evaluation = plan.data.evaluation
    folders = "; ".join(f"{domain}: {', '.join(paths)}" for domain, paths in evaluation.paths.items())
    held_out = " (only frames kept out of training)" if evaluation.held_out_only else ""
    return f"{folders}{held_out}" if folders else None


def _beginning(plan: Plan) -> str | None:
    if (chosen := plan.warm_up) is not None:
        return f"a model warmed up by {chosen.rounds} passes over {chosen.seconds:g} s of the first region"
    given = plan.training.initial_model
    return f"the model {given}" if given else None


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())
