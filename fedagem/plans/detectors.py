"""Detectors by name: each is a network and an objective that fit together, for any driving plan."""

from typing import Any

from fedagem.errors import PlanError
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan

DETECTORS = ("tinyyolo", "ssdlite")

_MODEL, _OBJECTIVE = "task_runner.settings.model", "task_runner.settings.objective"
_KEPT = ("augmentation", "thresholds", "min_size")
"""Settings that the objectives of all detectors have."""


def with_detector(plan: Plan, name: str) -> Plan:
    """The plan with another network and its objective; classes, input size and what all objectives share stay.

    `tinyyolo` leaves the plan as it is, because anchors belong to a plan.
    """
    if not isinstance(plan.data, DrivingSettings):
        raise PlanError(f"--detector {name} is for plans with vehicles, but {plan.name} trains a classifier.")
    if name == "tinyyolo":
        if "yolo" not in plan.training.model.template:
            raise PlanError(f"{plan.name} has no TinyYOLO, whose anchors belong to a plan: use one that has it.")
        return plan
    settings = {key: value for key, value in plan.training.objective.settings.items() if key in _KEPT}
    augmentation: dict[str, Any] = settings.get("augmentation", {})
    changes = {
        _MODEL: {
            "template": "models.ssdlite.SSDLite",
            "settings": {"classes": list(plan.data.classes), "input_size": list(plan.data.input_size)},
        },
        _OBJECTIVE: {
            "template": "fedagem.detection.any_detector.DetectorObjective",
            "settings": {**settings, "augmentation": {**augmentation, "flip": 0.0, "zoom": 0.0}},
        },
    }
    return plan.changed(changes).renamed(f"{plan.name}-{name}")
