"""Reads the `carla` section of a plan file, and says what is wrong with it and where."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import ConfigError
from fedagem.errors import PlanError
from fedagem.settings import parse_settings


def read_plan(path: Path | str) -> dict[str, Any]:
    """The `carla` section of a plan file, unchecked.

    `fx plan initialize` writes an empty `settings` into every section of a plan; it is left out here.
    """
    try:
        plan = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"the plan {path} cannot be read ({error.strerror})") from error
    except Exception as error:  # PyYAML has errors of its own, but the date 2021-99-99 ends in Python's, for one
        raise ConfigError(f"the plan {path} is not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(plan, dict) or not isinstance(plan.get("carla"), dict):
        raise ConfigError(f"the plan {path} has no 'carla' section")
    section: dict[str, Any] = plan["carla"]
    return {key: value for key, value in section.items() if key != "settings" or value != {}}


def parse_config(section: Mapping[str, Any]) -> CarlaSettings:
    """Check the section; the first mistake is named with its place."""
    try:
        return parse_settings(CarlaSettings, section, "carla")
    except PlanError as error:
        raise ConfigError(error.message.removesuffix(".")) from error
