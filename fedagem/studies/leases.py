"""Who works on what in a shared folder: by files alone, without locks between machines and without their clocks.

A worker is alive as long as its file changes. Whoever has seen no change for so many seconds of its own clock removes
the file, and the runs of that worker are free. A worker that finds its file removed, or that cannot renew it in time,
stops: its runs belong to others by then, or soon.

The files are opened and read again for each look, because network file systems show other machines' changes when a
file is opened, and not necessarily before.
"""

import errno
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Literal

from fedagem.errors import FedAGemError

RENEWALS = 6
"""How often a worker renews its file in the time after which others take it for dead."""
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}


class LeaseLostError(FedAGemError):
    """Others take this worker for dead, or may do so soon."""


def create_once(path: Path, content: str) -> bool:
    """Create a file with all of its content, unless it is there; of many machines that try, one succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        draft.write_text(content, encoding="utf-8")
        os.link(draft, path)
    except FileExistsError:
        # A server that answers a repeated request says that the file exists, although this request has made it.
        return draft.samefile(path)
    except OSError as problem:
        if problem.errno in _NO_LINKS:
            raise FedAGemError(
                f"the file system of {path.parent} has no hard links ({problem.strerror}), which a queue needs: choose "
                "a folder on another one."
            ) from problem
        raise
    finally:
        draft.unlink(missing_ok=True)
    return True


class SignOfLife:
    """A context in which a worker is alive for others: a thread renews its file."""

    def __init__(self, folder: Path, lease_seconds: float) -> None:
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._path = folder / self.worker
        self._lease_seconds = lease_seconds
        self._renewed = 0.0
        self._removed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew_on_and_on, daemon=True)

    def check(self) -> None:
        """Refuse to go on if the file was removed, or was not renewed for half of the time; with it, others wait."""
        silence = time.monotonic() - self._renewed
        if self._removed:
            raise LeaseLostError(
                f"{self._path} was removed: other workers have seen no sign of this one for "
                f"{self._lease_seconds:g} s and go on with its runs; start it again if this machine is well."
            )
        if silence > self._lease_seconds / 2:
            raise LeaseLostError(
                f"{self._path} could not be renewed for {silence:.0f} s, and other workers may go on with the runs of "
                "this one: see whether the shared folder can be written, then start it again."
            )

    def _renew_on_and_on(self) -> None:
        renewals = 0
        while not self._over.wait(self._lease_seconds / RENEWALS):
            renewals += 1
            began = time.monotonic()
            try:
                with self._path.open("r+b") as file:
                    file.write(f"{renewals}\n".encode())
            except OSError as problem:
                if problem.errno in {errno.ENOENT, errno.ESTALE}:
                    self._removed = True
                    return
                continue  # `check` says so if it lasts
            self._renewed = began

    def __enter__(self) -> "SignOfLife":
        self._renewed = time.monotonic()
        create_once(self._path, "0\n")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)


Sight = Literal["gone", "unknown", "alive"]
"""Whether a worker is there no more, has not been watched for long enough, or has given a sign of life since."""


class Lookout:
    """Watches the workers of a folder, and removes those that give no sign of life for too long."""

    def __init__(self, folder: Path, lease_seconds: float) -> None:
        self._folder = folder
        self._lease_seconds = lease_seconds
        self._seen: dict[str, tuple[bytes, float, Sight]] = {}
        """By worker: what its file held, since when, and what follows from it."""

    def look(self, worker: str) -> Sight:
        """Look once more; only what two looks have shown counts, so a slow or busy observer removes nobody."""
        path = self._folder / worker
        before = time.monotonic()
        try:
            content = path.read_bytes()
        except OSError as problem:
            if problem.errno in {errno.ENOENT, errno.ESTALE}:
                return "gone"
            raise
        if worker not in self._seen:
            self._seen[worker] = (content, time.monotonic(), "unknown")
        known, since, sight = self._seen[worker]
        if content != known:
            self._seen[worker] = (content, time.monotonic(), sight := "alive")
        elif before - since > self._lease_seconds:
            path.unlink(missing_ok=True)
            return "gone"
        return sight
