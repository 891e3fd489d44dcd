"""The live view of a run: rounds, stage, loss, accuracy and the time that is left, read from metrics.jsonl."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class LiveView:
    """A progress bar in a context; `refresh` takes in what was written since the last look."""

    def __init__(self, directory: Path, title: str, rounds: int, first_round: int = 0) -> None:
        self._path = directory / "metrics.jsonl"
        self._position = 0
        self._losses: dict[str, float] = {}
        self._facts: dict[str, str] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=rounds, completed=first_round, facts="starting")

    def __enter__(self) -> "LiveView":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self._progress.stop()

    def refresh(self) -> None:
        """Read new rows and show them."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.splitlines():
            self._take(json.loads(line))
        self._progress.update(self._task, facts="  ".join(f"{k} {v}" for k, v in self._facts.items()) or "starting")

    def _take(self, row: dict[str, Any]) -> None:
        metric, value = row["metric"], row["value"]
        if metric == "loss":
            self._losses[row["client"]] = value
            self._facts["loss"] = f"{sum(self._losses.values()) / len(self._losses):.3f}"
        elif metric == "refined_share":
            self._facts["refined"] = f"{value:.0%}"
        elif metric.startswith("accuracy/"):
            self._facts[metric.removeprefix("accuracy/")] = f"{sum(value) / len(value):.1%}"
        elif metric.startswith("map"):
            self._facts[metric] = f"{value:.3f}"
        if row["stage"] == "train":
            self._progress.update(self._task, completed=row["round"] + 1)
