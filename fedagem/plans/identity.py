"""What identifies a computation: the settings that numbers depend on, and the version of the code that learns."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from fedagem.learning import LEARNING_VERSION
from fedagem.settings import Settings

_LEFT_OUT: dict[str, Any] = {
    # How processes reach each other, and how patiently: by hand, addresses change from start to start.
    "network": ...,
    "aggregator": {"poll_seconds", "write_logs", "log_memory_usage"},
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
"""By part of a plan, the settings that change no number; `...` leaves out all of them."""


def computation(parts: Mapping[str, Any]) -> dict[str, Any]:
    """What the parts of a plan compute, as plain values; the same whether defaults are spelled out or not."""
    kept = {name: _plain(part, _LEFT_OUT.get(name)) for name, part in parts.items() if _LEFT_OUT.get(name) is not ...}
    return {"version": LEARNING_VERSION, **kept}


def digest_of(settings: Mapping[str, Any]) -> str:
    """A short name for settings: the same settings, the same name."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]


def _plain(part: Any, left_out: Any = None) -> Any:
    """Settings without what is at its default or left out, as plain values."""
    if isinstance(part, Settings):
        values = part.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
        return {name: value for name, value in values.items() if value != {}}
    if isinstance(part, Mapping):
        return {key: _plain(value) for key, value in part.items()}
    return part
