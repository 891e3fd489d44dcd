"""The live view of a run: rounds, stage, losses, scores, buffers and the time that is left, read from metrics.jsonl."""

from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from fedagem.run_watch import RunWatch
from fedagem.slow_progress import slow_progress

_CLIENTS_SHOWN = 12


class LiveView:
    """A progress bar over a table of clients, in a context; `refresh` takes in what was written since the last look."""

    def __init__(self, directory: Path, title: str, rounds: int) -> None:
        self._watch = RunWatch(directory)
        console = Console(stderr=True)
        self._progress = slow_progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[stage]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task(title, total=rounds, stage="starting")
        self._live = Live(self._progress, console=console, refresh_per_second=4)

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self._live.stop()
        if not self._live.console.is_terminal:
            self._live.console.line()  # in a file, what is said next begins on a line of its own

    def refresh(self) -> None:
        """Read new rows and show them."""
        if self._watch.look():
            self._progress.update(self._task, stage=self._watch.stage, completed=self._watch.rounds)
            self._live.update(Group(self._progress, self._table()))

    def _table(self) -> Table:
        """What each client reported last, and the federation's scores under it."""
        clients, scores = self._watch.clients, self._watch.scores()
        names = {name for facts in clients.values() for name in facts}
        losses = sorted(name for name in names if name.startswith("loss/"))
        domains = sorted(name for name in names if name.startswith("buffer/"))
        table = Table(box=None, caption=scores or None, caption_justify="left")
        table.add_column("client")
        for name in (*losses, "samples × epochs", "refined", "buffer", *domains):
            table.add_column(name.split("/")[-1], justify="right")
        for client, facts in sorted(clients.items())[:_CLIENTS_SHOWN]:
            cells = [f"{facts.get(name, 0):.3f}" for name in losses]
            cells += [f"{facts.get('samples', 0):.0f}", f"{facts.get('refined_share', 0):.0%}"]
            cells += [f"{facts.get(name, 0):.0f}" for name in ("buffer", *domains)]
            table.add_row(client, *cells)
        if len(clients) > _CLIENTS_SHOWN:
            table.add_row(f"and {len(clients) - _CLIENTS_SHOWN} more")
        return table
