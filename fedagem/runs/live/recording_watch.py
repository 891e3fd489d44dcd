"""How far a recording is, read from the log of `carla-bridge record` while it is being written."""

import re
from pathlib import Path

_PROGRESS = re.compile(r"(\S+) of \S+ s")


class RecordingWatch:
    """`look` takes in what was written since the last look."""

    def __init__(self, log: Path, begin: int) -> None:
        self._log = log
        self._position = begin
        self.second = 0.0
        """Of the drive: everything before it is on disk."""
        self.said = ""
        """What the recorder said last: a vehicle that was moved, a server that was lost, and at the end a summary."""

    def look(self) -> None:
        """Read the lines that are complete."""
        with self._log.open("rb") as file:
            file.seek(self._position)
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            if progress := _PROGRESS.fullmatch(line):
                self.second = float(progress[1])
            else:
                self.said = line
