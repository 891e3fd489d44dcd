"""The live view of a run: rounds, stage, losses, scores, buffers and the time that is left, read from metrics.jsonl."""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from fedagem.metric_names import shown_name

_CLIENTS_SHOWN = 12


class LiveView:
    """A progress bar over a table of clients, in a context; `refresh` takes in what was written since the last look."""

    def __init__(self, directory: Path, title: str, rounds: int) -> None:
        self._path = directory / "metrics.jsonl"
        self._position = 0
        self._file_number: int | None = None
        self._clients: dict[str, dict[str, float]] = defaultdict(dict)
        self._scores: dict[str, float] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[stage]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._task = self._progress.add_task(title, total=rounds, stage="starting")
        self._live = Live(self._progress, console=Console(stderr=True), refresh_per_second=4)

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
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            self._start_over_if_replaced(os.fstat(file.fileno()))
            file.seek(self._position)
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        if not complete:
            return
        self._position += len(complete)
        for line in complete.splitlines():
            self._take(json.loads(line))
        self._live.update(Group(self._progress, self._table()))

    def _start_over_if_replaced(self, status: os.stat_result) -> None:
        """A restarted aggregator takes back the rows of the round that it repeats, by writing the file anew."""
        if status.st_ino != self._file_number or status.st_size < self._position:
            self._file_number, self._position = status.st_ino, 0
            self._clients.clear()
            self._scores.clear()

    def _take(self, row: dict[str, Any]) -> None:
        metric, value = row["metric"], row["value"]
        if metric.startswith("accuracy/"):
            self._scores[metric] = sum(value) / len(value)
        elif metric.startswith("map_50/"):
            self._scores[metric] = value
        elif row["stage"] == "train" and row["client"] != "federation":
            if metric == "samples":
                value += self._clients[row["client"]].get(metric, 0.0)
            self._clients[row["client"]][metric] = value
        self._progress.update(self._task, stage=f"{row['stage']} done", completed=_rounds_done(row))

    def _table(self) -> Table:
        """What each client reported last, and the federation's scores under it."""
        names = {name for facts in self._clients.values() for name in facts}
        losses = sorted(name for name in names if name.startswith("loss/"))
        domains = sorted(name for name in names if name.startswith("buffer/"))
        scores = "  ".join(f"{shown_name(name)} {value:.3f}" for name, value in sorted(self._scores.items()))
        table = Table(box=None, caption=scores or None, caption_justify="left")
        table.add_column("client")
        for name in (*losses, "seen", "refined", "buffer", *domains):
            table.add_column(name.split("/")[-1], justify="right")
        for client, facts in sorted(self._clients.items())[:_CLIENTS_SHOWN]:
            cells = [f"{facts.get(name, 0):.3f}" for name in losses]
            cells += [f"{facts.get('samples', 0):.0f}", f"{facts.get('refined_share', 0):.0%}"]
            cells += [f"{facts.get(name, 0):.0f}" for name in ("buffer", *domains)]
            table.add_row(client, *cells)
        if len(self._clients) > _CLIENTS_SHOWN:
            table.add_row(f"and {len(self._clients) - _CLIENTS_SHOWN} more")
        return table


def _rounds_done(row: dict[str, Any]) -> int:
    trained = row["stage"] in {"train", "evaluate"}
    return int(row["round"]) + int(trained)
