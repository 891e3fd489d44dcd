"""The `carla-bridge` command, through which alone CARLA is reached."""

import sys
from collections.abc import Iterable
from pathlib import Path

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError
from carla_bridge.requirements import require_client, require_simulator
from fedagem.errors import FedAGemError

_BRIDGE = str(Path(sys.executable).with_name("carla-bridge"))


def check_bridge(sections: Iterable[CarlaSettings]) -> None:
    """Refuse to start it without the packages that it needs for these `carla` sections."""
    try:
        for section in sections:
            require_client()
            if section.embedded:
                require_simulator()
    except BridgeError as problem:
        raise FedAGemError(f"{problem}.") from problem


def fleet_command(plan_file: str, ready_file: str) -> list[str]:
    """The process that drives the vehicles and serves their frames on this machine, at a port that it chooses."""
    return [_BRIDGE, "serve", "--plan", plan_file, "--listen", "127.0.0.1:0", "--ready-file", ready_file]


def record_command(plan_file: Path, seconds: float, out: Path, jpeg_quality: int | None) -> list[str]:
    """The process that drives the vehicles and records their frames; it continues a recording that was begun."""
    command = [_BRIDGE, "record", "--plan", str(plan_file), "--seconds", f"{seconds:g}", "--out", str(out), "--resume"]
    return command if jpeg_quality is None else [*command, "--jpeg-quality", str(jpeg_quality)]
