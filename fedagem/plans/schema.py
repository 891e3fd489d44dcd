"""The sections that a plan can have, and the model of each one's settings."""

from typing import Any

from carla_bridge.config.section import CarlaSettings
from fedagem.learning.trainer import TrainingSettings
from fedagem.plans.driving import DriveSettings, DrivingSettings, WarmUp
from fedagem.plans.federation import AggregatorSettings, CollaboratorSettings, NetworkSettings
from fedagem.plans.rounds import RoundSettings
from fedagem.settings import Settings
from fedagem.tasks.settings import StreamSettings

CLASSES = ("aggregator", "collaborator", "data_loader", "task_runner", "assigner", "network")
"""Sections that name a class and its settings."""
SECTIONS = (*CLASSES, "tasks")
OPENFL_SECTIONS = ("compression_pipeline", "straggler_handling_policy")
"""Optional sections that only OpenFL reads."""
OPTIONAL_SECTIONS = (*OPENFL_SECTIONS, "carla", "driving", "warm_up")
WHOLE_SECTIONS: dict[str, type[Settings]] = {"carla": CarlaSettings, "driving": DriveSettings, "warm_up": WarmUp}
"""Sections that are settings all through."""
LOADERS: dict[str, type[Settings]] = {
    "src.data_loader.TaskStreamLoader": StreamSettings,
    "src.driving_loader.DrivingLoader": DrivingSettings,
}
_SCHEMAS: dict[str, type[Settings]] = {
    "aggregator": AggregatorSettings,
    "assigner": RoundSettings,
    "collaborator": CollaboratorSettings,
    "network": NetworkSettings,
    "task_runner": TrainingSettings,
}


def settings_schema(name: str, section: Any) -> type[Settings] | None:
    """The model of a section's settings; a data loader's depends on whether vehicles learn or clients of a benchmark.

    A class that is not ours takes the settings of the one that it stands for.
    """
    if name != "data_loader":
        return _SCHEMAS.get(name)
    if not isinstance(section, dict):
        return None
    settings = section.get("settings")
    drives = isinstance(settings, dict) and "vehicles" in settings
    return LOADERS.get(section.get("template", ""), DrivingSettings if drives else StreamSettings)
