"""What a child process prints, in a file without a name: it is gone with the processes, even if they are killed."""

import os
import tempfile
from multiprocessing.reduction import DupFd
from typing import IO, Any


class ProcessLog:
    """Made by the parent, handed to the child when that is spawned, and read by the parent when the child has ended."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._file = tempfile.TemporaryFile() if file is None else file  # noqa: SIM115 - lives as long as this

    def __reduce__(self) -> Any:
        return _inherited, (DupFd(self._file.fileno()),)

    def take_output(self) -> None:
        """Send what this process and its libraries print to the file."""
        for standard in (1, 2):
            os.dup2(self._file.fileno(), standard)

    def last_line(self) -> str:
        """The last thing that was printed; empty if there was nothing."""
        size = os.fstat(self._file.fileno()).st_size
        lines = os.pread(self._file.fileno(), size, 0).decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        self._file.close()


def _inherited(descriptor: Any) -> ProcessLog:
    return ProcessLog(os.fdopen(descriptor.detach(), "rb"))
