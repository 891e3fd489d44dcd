"""Kills a process in the middle of a write: Linux tells when a file is created, and the signal follows at once.

States are written to a `.partial` file that is renamed when all of it is on disk. If the file is still there after the
process is dead, the kill fell into the write.
"""

import contextlib
import ctypes
import os
import select
import signal
import struct
import threading
from collections.abc import Iterable
from pathlib import Path

_IN_CREATE = 0x100
_IN_NONBLOCK = 0o4000
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class WriteTrap:
    """Kills a process as soon as a `.partial` file appears in one of some folders."""

    def __init__(self, pid: int, folders: Iterable[Path], skip: int = 0) -> None:
        """The first `skip` writes are let through."""
        self._pid = pid
        self._skip = skip
        self._inotify = _libc.inotify_init1(_IN_NONBLOCK)
        if self._inotify < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._folders: dict[int, Path] = {}
        for folder in folders:
            watch = _libc.inotify_add_watch(self._inotify, os.fsencode(folder), _IN_CREATE)
            self._folders[watch] = folder
        self._stop = threading.Event()
        self.caught: Path | None = None
        """The file whose creation the signal followed."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.is_set():
            if not select.select([self._inotify], [], [], 0.2)[0]:
                continue
            for folder, name in self._events():
                if not (name.startswith(".") and name.endswith(".partial")):
                    continue
                if self._skip > 0:
                    self._skip -= 1
                    continue
                self.caught = folder / name  # before the signal: whoever finds the process dead finds out why
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                return

    def _events(self) -> Iterable[tuple[Path, str]]:
        try:
            content = os.read(self._inotify, 2**16)
        except BlockingIOError:
            return
        place = 0
        while place < len(content):
            watch, _, _, length = _EVENT.unpack_from(content, place)
            place += _EVENT.size
            name = content[place : place + length].rstrip(b"\0").decode()
            place += length
            yield self._folders[watch], name

    def close(self) -> None:
        """Wait no longer."""
        self._stop.set()
        self._thread.join()
        os.close(self._inotify)
