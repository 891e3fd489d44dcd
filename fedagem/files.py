"""State that survives its process: written atomically, and never loaded when damaged.

A file is a magic word, the SHA-256 of its body, and the body that torch saves. States can be as large as the memory
that is left, so neither writing nor reading holds the body a second time.
"""

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from fedagem.errors import CorruptStateError, FedAGemError

_MAGIC = b"FEDAGEM1"
_DIGEST = 32
_CHUNK = 2**20


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace `path` by `state` (tensors and plain values): the old file stays until the new one is on disk."""
    try:
        _replace(path, state)
    except OSError as problem:
        raise FedAGemError(f"{path} cannot be written: {problem.strerror}.") from problem


def read_state(path: Path) -> dict[str, Any]:
    """The state saved at `path`; refuses a file that is truncated, damaged or of another kind."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC or file.read(_DIGEST) != _digest_of_rest(file):
                raise CorruptStateError(
                    f"{path} is damaged ({path.stat().st_size} bytes, checksum does not match) and was not loaded; "
                    "remove it to start this part afresh, or restore it from a copy."
                )
            file.seek(len(_MAGIC) + _DIGEST)
            state: dict[str, Any] = torch.load(file, weights_only=True)
    except OSError as problem:
        raise FedAGemError(f"{path} cannot be read: {problem.strerror}.") from problem
    return state


class _Body:
    """What torch writes a state to: hashed on its way into the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.problem: BaseException | None = None

    def write(self, data: memoryview) -> int:
        """Whatever goes wrong is kept: torch goes on to close its archive, and complains of that instead."""
        try:
            self._file.write(data)
            self.sha256.update(data)
        except BaseException as problem:
            self.problem = problem
            raise
        return len(data)

    def flush(self) -> None:
        """The file is flushed when it has its checksum, too."""


def _replace(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(_MAGIC + bytes(_DIGEST))
        body = _Body(file)
        try:
            torch.save(state, cast(BinaryIO, body))
        except RuntimeError as complaint:
            raise body.problem or complaint from None
        file.seek(len(_MAGIC))
        file.write(body.sha256.digest())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _digest_of_rest(file: BinaryIO) -> bytes:
    sha256 = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        sha256.update(chunk)
    return sha256.digest()
