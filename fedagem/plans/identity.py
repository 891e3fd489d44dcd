"""What names a plan, and what identifies its computation: settings, and the version of the code that learns."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from fedagem.learning import LEARNING_VERSION
from fedagem.settings import Settings

_LEFT_OUT: dict[str, Any] = {
    # How processes reach each other, and how patiently: by hand, addresses change from start to start.
    "network": ...,
    "aggregator": {"poll_seconds", "write_logs", "log_memory_usage", "rounds_to_train", "keep_received", "absence"},
    "collaborator": {"connect_seconds", "retry_seconds", "write_logs", "log_memory_usage"},
    # Where frames come from and where recordings are kept; what is driven and recorded stays.
    "data": {"stream": {"host", "port"}},
    "carla": {
        "host": True,
        "port": True,
        "timeout_seconds": True,
        "traffic_manager_port": True,
        "stream": {"host", "port"},
    },
    "driving": {"snippets"},
}
"""By part of a plan, the settings that no round depends on; `...` leaves out all of them.

The number of rounds is one of them, so that a federation may be lengthened: no round depends on how many follow it. A
task stream's rounds are shared out by data_loader.settings.rounds_per_task, which stays. So is what happens if a
collaborator stays away: one that waits for somebody can be told not to, and goes on with the rounds it has.
"""


def settings_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """All parts of a plan and the version of the code as plain values, whether defaults are spelled out or not."""
    return {"version": LEARNING_VERSION, **{name: _plain(part) for name, part in parts.items()}}


def computation_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The same without the settings that no round depends on."""
    kept = {name: _LEFT_OUT.get(name) for name in parts if _LEFT_OUT.get(name) is not ...}
    return {"version": LEARNING_VERSION, **{name: _plain(parts[name], left_out) for name, left_out in kept.items()}}


def digest_of(settings: Mapping[str, Any]) -> str:
    """A short name for settings: the same settings, the same name."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]


def _plain(part: Any, left_out: Any = None) -> Any:
    """Settings without what is at its default or left out, as plain values."""
    if isinstance(part, Settings):
        values = part.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
        return {name: value for name, value in values.items() if value != {} or name not in (left_out or ())}
    if isinstance(part, Mapping):
        return {key: _plain(value) for key, value in part.items()}
    return part
