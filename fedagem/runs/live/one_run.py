"""The live view of a run: rounds, stage, losses, scores, buffers and the time that is left, read from metrics.jsonl."""

from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fedagem.runs.live.clients_table import clients_table
from fedagem.runs.live.lines import Lines
from fedagem.runs.live.progress import slow_progress
from fedagem.runs.live.run_watch import RunWatch

_CLIENTS_SHOWN = 12


class LiveView:
    """Bars over a table of clients, in a context; `refresh` takes in what was written since the last look."""

    def __init__(self, directory: Path, title: str, rounds: int) -> None:
        self._watch = RunWatch(directory)
        self._title, self._total = title, rounds
        console = Console(stderr=True)
        self._lines = Lines(console)
        self._progress = slow_progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._run = self._progress.add_task(title, total=rounds)
        self._under_way = slow_progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
        )
        self._stage = self._under_way.add_task(self._watch.stage, total=None)
        self._waiting = Text(style="yellow")
        above = Group(self._progress, self._under_way, self._waiting)
        self._live = Live(above, console=console, refresh_per_second=4)

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self._live.stop()
        if not self._live.console.is_terminal:
            self._live.console.line()  # in a file, the next message begins on a new line

    def refresh(self) -> None:
        """Read new rows and show them; the clock starts again with every stage."""
        before = self._watch.stage
        news = self._watch.look()
        self._under_way.update(self._stage, description=self._watch.under_way())
        self._waiting.plain = self._watch.waiting()
        self._lines.say(self._title, f"{self._watch.rounds} of {self._total} rounds, {self._watch.summary()}")
        if news:
            self._progress.update(self._run, completed=self._watch.rounds)
            if self._watch.stage != before:
                self._under_way.reset(self._stage, description=self._watch.stage)
            clients = clients_table(self._watch, _CLIENTS_SHOWN)
            self._live.update(Group(self._progress, self._under_way, self._waiting, clients))
