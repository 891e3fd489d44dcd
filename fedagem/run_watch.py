"""What a run has reported so far, read from its metrics.jsonl while it is being written."""

import json
import os
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from fedagem.metric_names import shown_name


class RunWatch:
    """`look` takes in what was written since the last look."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "metrics.jsonl"
        self._position = 0
        self._file_number: int | None = None
        self.clients: dict[str, dict[str, float]] = defaultdict(dict)
        """What each client reported last, by metric."""
        self._scores: dict[str, float] = {}
        self.stage = "starting"
        self.rounds = 0

    def look(self) -> bool:
        """Whether there was something new."""
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            self._start_over_if_replaced(os.fstat(file.fileno()))
            file.seek(self._position)
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.splitlines():
            self._take(json.loads(line))
        return bool(complete)

    def scores(self) -> str:
        """What the federation scored last."""
        return "  ".join(f"{shown_name(name)} {value:.3f}" for name, value in sorted(self._scores.items()))

    def summary(self) -> str:
        """Everything in one line: the stage, the clients' mean loss and refined share, the scores."""
        parts = [self.stage]
        for metric, form in (("loss", "loss {:.3f}"), ("refined_share", "refined {:.0%}")):
            if values := [facts[metric] for facts in self.clients.values() if metric in facts]:
                parts.append(form.format(mean(values)))
        return "  ".join(filter(None, (*parts, self.scores())))

    def _start_over_if_replaced(self, status: os.stat_result) -> None:
        """A restarted aggregator takes back the rows of the round that it repeats, by writing the file anew."""
        if status.st_ino != self._file_number or status.st_size < self._position:
            self._file_number, self._position = status.st_ino, 0
            self.clients.clear()
            self._scores.clear()

    def _take(self, row: dict[str, Any]) -> None:
        metric, value = row["metric"], row["value"]
        if metric.startswith("accuracy/"):
            self._scores[metric] = sum(value) / len(value)
        elif metric.startswith("map_50/"):
            self._scores[metric] = value
        elif row["stage"] == "train" and row["client"] != "federation":
            if metric == "samples":
                value += self.clients[row["client"]].get(metric, 0.0)
            self.clients[row["client"]][metric] = value
        self.stage = f"{row['stage']} done"
        self.rounds = int(row["round"]) + int(row["stage"] in {"train", "evaluate"})
