"""State that survives its process: written atomically, and never loaded when damaged."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from fedagem.errors import CorruptStateError, FedAGemError

_MAGIC = b"FEDAGEM1"
_DIGEST = 32


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace `path` by `state` (tensors and plain values): the old file stays until the new one is on disk."""
    payload = io.BytesIO()
    torch.save(state, payload)
    try:
        _replace(path, payload.getbuffer())
    except OSError as problem:
        raise FedAGemError(f"{path} cannot be written: {problem.strerror}.") from problem


def read_state(path: Path) -> dict[str, Any]:
    """The state saved at `path`; refuses a file that is truncated, damaged or of another kind."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise FedAGemError(f"{path} cannot be read: {problem.strerror}.") from problem
    head = len(_MAGIC) + _DIGEST
    body = memoryview(content)[head:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) : head]:
        raise CorruptStateError(
            f"{path} is damaged ({len(content)} bytes, checksum does not match) and was not loaded; "
            "remove it to start this part afresh, or restore it from a copy."
        )
    state: dict[str, Any] = torch.load(io.BytesIO(body), weights_only=True)
    return state


def _replace(path: Path, body: memoryview) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(_MAGIC)
        file.write(hashlib.sha256(body).digest())
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
