"""Files that survive a crash: replaced atomically, checked when they are read, and locked among processes.

Torch is imported lazily: it takes seconds, and most processes only need to replace or lock a file.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from fedagem.errors import CorruptStateError, FedAGemError

_MAGIC = b"FEDAGEM1"
_DIGEST = 32
_CHUNK = 2**20


# Replacing


@contextlib.contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` once all of it is on disk; a private one is for this user alone.

    The old file stays until then. If anything fails, the disk is full for instance, it stays for good, and nothing is
    left of the new one.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                if private:
                    os.fchmod(file.fileno(), 0o600)
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as problem:
        raise FedAGemError(f"{path} cannot be written: {problem.strerror or problem}.") from problem


def write_file(path: Path, content: str | bytes, private: bool = False) -> None:
    """Replace `path` atomically; a string is written as UTF-8."""
    with replacing(path, private) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name; on another disk, or one that has no links, a copy."""
    try:
        target.hardlink_to(source.resolve())
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _sync_folder(folder: Path) -> None:
    """Put a rename on disk: without it, a power failure can bring the old file back."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # some network file systems cannot do it
            raise
    finally:
        os.close(descriptor)


# States: a magic word, the SHA-256 of the body, and the body that torch saves. They can be as large as the memory that
# is left, so neither writing nor reading holds the body a second time.


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace `path` atomically by `state`, which holds tensors and plain values."""
    import torch

    with replacing(path) as file:
        file.write(_MAGIC + bytes(_DIGEST))
        body = _Body(file)
        try:
            torch.save(state, cast(BinaryIO, body))
        except RuntimeError as complaint:
            raise body.problem or complaint from None
        file.seek(len(_MAGIC))
        file.write(body.sha256.digest())


def read_state(path: Path) -> dict[str, Any]:
    """The state saved at `path`; refuses a file that is truncated, damaged or of another kind."""
    import torch

    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC or file.read(_DIGEST) != _digest_of_rest(file):
                raise CorruptStateError(
                    f"{path} is damaged ({path.stat().st_size} bytes, checksum does not match) and was not loaded; "
                    "remove it to start this part again from the beginning, or restore it from a copy."
                )
            file.seek(len(_MAGIC) + _DIGEST)
            state = torch.load(file, weights_only=True)
    except FedAGemError:
        raise
    except OSError as problem:
        raise FedAGemError(f"{path} cannot be read: {problem.strerror}.") from problem
    except Exception as problem:  # torch has no error of its own for what it cannot load
        raise CorruptStateError(f"{path} holds no state ({type(problem).__name__}) and was not loaded.") from problem
    if not isinstance(state, dict):
        raise CorruptStateError(f"{path} holds a {type(state).__name__}, not a state, and was not loaded.")
    return state


def check_origin(path: Path, state: Mapping[str, Any], origin: str) -> None:
    """Refuse a state that another plan has left, or that does not say whose it is; `origin` names the plan."""
    if state.get("origin") != origin:
        raise CorruptStateError(
            f"{path} is of another plan, or of another version of fedagem: work in another folder, or remove "
            "save/checkpoint.state and local_state/ to start from the beginning."
        )


class _Body:
    """What torch writes a state to: hashed on its way into the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.problem: BaseException | None = None

    def write(self, data: memoryview) -> int:
        """Keep the first error: torch then tries to close its archive, and would report that failure instead."""
        try:
            self._file.write(data)
            self.sha256.update(data)
        except BaseException as problem:
            self.problem = problem
            raise
        return len(data)

    def flush(self) -> None:
        """The file is flushed once the checksum is in it."""


def _digest_of_rest(file: BinaryIO) -> bytes:
    sha256 = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        sha256.update(chunk)
    return sha256.digest()


# Locks


class Lock:
    """A lock among processes: at most one holds it, and the system frees it when that process ends, even by a kill.

    A process that inherits the open file shares the lock: it is free once all of them have ended.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def take(self, wait: bool = False) -> bool:
        """Take the lock, or say that another process has it; with `wait`, wait until it is free."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def fileno(self) -> int:
        """The open file, for a process that shall share the lock."""
        return self._file.fileno()

    def close(self) -> None:
        """Free the lock, unless another process shares it."""
        self._file.close()

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
