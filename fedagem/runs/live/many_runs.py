"""The live view of many runs: a bar for each that is under way, and its clients if only a few are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from fedagem.runs.live.clients_table import clients_table
from fedagem.runs.live.lines import Lines
from fedagem.runs.live.progress import slow_progress
from fedagem.runs.live.run_watch import RunWatch

_TABLES = 2
"""With more runs at a time their tables would not fit on a screen, and each gets a line."""
_CLIENTS_SHOWN = 4


class BatchView:
    """A context that shows bars and tables; runs in other threads may begin, report and end."""

    def __init__(self, runs: int, finished: int) -> None:
        console = Console(stderr=True)
        self._lines = Lines(console)
        self._progress = slow_progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn(
                "{task.fields[facts]}", table_column=Column(no_wrap=False)
            ),  # on a narrow screen, this one gives way
            console=console,
        )
        self._all = self._progress.add_task("runs", total=runs, completed=finished, facts="")
        self._watches: dict[TaskID, RunWatch] = {}
        self._titles: dict[TaskID, str] = {}
        self._lock = threading.Lock()
        self._live = Live(self._progress, console=console, refresh_per_second=4)

    def __enter__(self) -> "BatchView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if not self._live.console.is_terminal:
            self._live.console.line()  # in a file, the next message begins on a new line

    @contextmanager
    def run(self, title: str, watch: RunWatch, rounds: int) -> Iterator[TaskID]:
        """Show a run while it is under way; one that ends without an error is counted."""
        bar = self._progress.add_task(title, total=rounds, facts=watch.stage)
        with self._lock:
            self._watches[bar], self._titles[bar] = watch, title
        try:
            yield bar
            self._progress.advance(self._all)
        finally:
            with self._lock:
                del self._watches[bar], self._titles[bar]
                self._progress.remove_task(bar)
                self._draw()

    def count(self, runs: int, finished: int) -> None:
        """Say how many runs there are and how many are finished, if others work on them, too."""
        self._progress.update(self._all, total=runs, completed=finished)

    def refresh(self, bar: TaskID) -> None:
        """Take in what a run has written since the last look."""
        with self._lock:
            watch = self._watches[bar]
            news = watch.look()
            self._lines.say(self._titles[bar], f"{watch.rounds} rounds done, {watch.summary()}")
            if news or self._live.console.is_terminal:
                self._draw()

    def _draw(self) -> None:
        tables = []
        few = len(self._watches) <= _TABLES
        for bar, watch in self._watches.items():
            self._progress.update(bar, completed=watch.rounds, facts=watch.under_way() if few else watch.summary())
            if few and watch.clients:
                tables.append(clients_table(watch, _CLIENTS_SHOWN, self._titles[bar]))
        self._live.update(Group(self._progress, *tables))
