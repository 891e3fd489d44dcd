"""Processes of a federation, as a person starts them in a terminal: each leads a session and speaks into a file."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

BIN = Path(sys.executable).parent
"""Where the commands of this installation are."""


class Process(subprocess.Popen[bytes]):
    """A pipe that nobody reads would stop it when full, so its output is in a file."""

    def __init__(
        self, *command: str | Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1", **(environment or {})},
            start_new_session=True,
        )

    def said(self) -> str:
        """Everything it has said so far; its own place in the file is left alone."""
        descriptor = self._output.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def end(self) -> None:
        """End whatever is left of it and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


def end(*processes: Process) -> None:
    """End whatever is left of the processes and their children."""
    for process in processes:
        process.end()


def is_alive(pid: int) -> bool:
    """Whether a process is there and not only waiting to be noticed as dead."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
