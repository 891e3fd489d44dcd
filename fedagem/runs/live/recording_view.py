"""The live view of drives that are being recorded: a bar for each, and what its recorder said last."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from fedagem.runs.drives import Drive
from fedagem.runs.live.progress import slow_progress
from fedagem.runs.live.recording_watch import RecordingWatch


class RecordingView:
    """A context that shows bars; drives in other threads may begin and report."""

    def __init__(self, drives: Sequence[Drive]) -> None:
        self._console = Console(stderr=True)
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
        self._progress.update(self._bars[drive.title], said=text)

    def begin(self, drive: Drive) -> None:
        """Let a drive's clock run."""
        self._progress.start_task(self._bars[drive.title])

    def show(self, drive: Drive, watch: RecordingWatch) -> None:
        """Show how far it is."""
        self._progress.update(self._bars[drive.title], completed=watch.second, said=watch.said)

    def end(self, drive: Drive) -> None:
        """Show that all of it is recorded; what was said on the way is in its log."""
        self._progress.update(self._bars[drive.title], completed=drive.seconds, said="")
