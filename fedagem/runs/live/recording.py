"""The live view of drives that are being recorded: a bar for each, and what its recorder said last.

Both are read from the log of `carla-bridge record` while it is being written.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from fedagem.runs.drives import Drive
from fedagem.runs.live.lines import Lines
from fedagem.runs.live.progress import slow_progress

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


class RecordingView:
    """A context that shows bars; drives in other threads may begin and report."""

    def __init__(self, drives: Sequence[Drive]) -> None:
        self._console = Console(stderr=True)
        self._lines = Lines(self._console)
        self._progress = slow_progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TextColumn("{task.completed:g} of {task.total:g} s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[said]}", table_column=Column(no_wrap=False)),  # gives way on a narrow screen
            console=self._console,
        )
        self._bars: dict[str, TaskID] = {
            drive.title: self._progress.add_task(drive.title, start=False, total=drive.seconds, said="")
            for drive in drives
        }

    def __enter__(self) -> "RecordingView":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        if not self._console.is_terminal:
            self._console.line()  # in a file, the next message begins on a new line

    def say(self, drive: Drive, text: str) -> None:
        """Say what a drive is waiting for."""
        self._lines.say(f"recording {drive.title}", text)
        self._progress.update(self._bars[drive.title], said=text)

    def begin(self, drive: Drive) -> None:
        """Let a drive's clock run."""
        self._progress.start_task(self._bars[drive.title])

    def show(self, drive: Drive, watch: RecordingWatch) -> None:
        """Show how far it is."""
        said = f", {watch.said}" if watch.said else ""
        self._lines.say(f"recording {drive.title}", f"{watch.second:g} of {drive.seconds:g} s{said}")
        self._progress.update(self._bars[drive.title], completed=watch.second, said=watch.said)

    def end(self, drive: Drive) -> None:
        """Show that all of it is recorded; what was said on the way is in its log."""
        self._progress.update(self._bars[drive.title], completed=drive.seconds, said="")
