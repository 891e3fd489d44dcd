"""What a run leaves behind in comparable form: everything that must not depend on how it came about."""

import json
from pathlib import Path
from typing import Any

import torch

from fedagem.files import read_state

MODELS = ("last.pbuf", "best.pbuf", "last.safetensors", "best.safetensors")
_SECONDS = {"seconds", "train_seconds", "buffer_gradient_seconds", "end_task_seconds", "secagg_seconds"}
_CLOCK = {*_SECONDS, "bytes_down", "bytes_up"}
"""Time and traffic: a client that starts again fetches the model again."""


def rows_of(run: Path) -> list[dict[str, Any]]:
    """What was measured so far; a last row that is still being written is left out."""
    path = run / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def outcome(run: Path) -> dict[str, Any]:
    """Metrics, models and the clients' memories."""
    states = {
        str(path.relative_to(run)): _comparable(read_state(path))
        for path in sorted((run / "local_state").rglob("*.state"))
    }
    return {
        "metrics": [row for row in rows_of(run) if row["metric"] not in _CLOCK],
        "models": {name: (run / "save" / name).read_bytes() for name in MODELS if (run / "save" / name).exists()},
        "states": states,
    }


def differences(run: Path, reference: Path) -> list[str]:
    """Where the outcome of a run is not that of another one; empty if they are the same to the last bit."""
    ours, theirs = outcome(run), outcome(reference)
    found = [] if ours["metrics"] == theirs["metrics"] else ["metrics.jsonl"]
    for part in ("models", "states"):
        names = sorted(ours[part].keys() | theirs[part].keys())
        found += [name for name in names if ours[part].get(name) != theirs[part].get(name)]
    return found


def _comparable(value: Any) -> Any:
    """A state whose tensors can be compared by ==."""
    if isinstance(value, dict):
        return {name: _comparable(part) for name, part in value.items()}
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.numpy().tobytes()
    return value
