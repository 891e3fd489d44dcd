"""What a run has reported so far, read from its metrics.jsonl while it is being written."""

import os
from collections import defaultdict
from pathlib import Path
from statistics import mean

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.rounds import RoundSettings
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import (
    ACCURACY,
    FEDERATION,
    LOG_NAME,
    LOSS,
    MAP_50,
    REFINED_SHARE,
    SAMPLES,
    TRAIN,
    MetricRow,
    shown_name,
)


class RunWatch:
    """`look` takes in what was written since the last look."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / LOG_NAME
        self._rounds: RoundSettings | None = None
        self._epochs, self._last = 1, 0
        self.counts = "samples × epochs"
        """What the clients' `samples` are: frames of vehicles, or samples that count once for each epoch."""
        self._position = 0
        self._file_number: int | None = None
        self.clients: dict[str, dict[str, float]] = defaultdict(dict)
        """What each client reported last, by metric."""
        self._scores: dict[str, float] = {}
        self.stage = "starting"
        """What is under way: a row means that its stage is over, and the plan says which one follows."""
        self.rounds = 0
        """How many are over."""

    def look(self) -> bool:
        """Whether there was something new."""
        if not self._path.exists():
            return False
        if self._rounds is None:
            self._read_plan()
        with self._path.open("rb") as file:
            self._start_over_if_replaced(os.fstat(file.fileno()))
            file.seek(self._position)
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.splitlines():
            self._take(MetricRow.parse(line))
        return bool(complete)

    def scores(self) -> str:
        """What the federation scored last."""
        return "  ".join(f"{shown_name(name)} {value:.3f}" for name, value in sorted(self._scores.items()))

    def summary(self) -> str:
        """Everything in one line: the stage, the clients' mean loss and refined share, the scores."""
        parts = [self.stage]
        for metric, form in ((LOSS, "loss {:.3f}"), (REFINED_SHARE, "refined {:.0%}")):
            if values := [facts[metric] for facts in self.clients.values() if metric in facts]:
                parts.append(form.format(mean(values)))
        return "  ".join(filter(None, (*parts, self.scores())))

    def _start_over_if_replaced(self, status: os.stat_result) -> None:
        """A restarted aggregator takes back the rows of the round that it repeats, by writing the file again."""
        if status.st_ino != self._file_number or status.st_size < self._position:
            self._file_number, self._position = status.st_ino, 0
            self.clients.clear()
            self._scores.clear()

    def _take(self, row: MetricRow) -> None:
        if row.metric.startswith((ACCURACY, MAP_50)):
            self._scores[row.metric] = row.value
        elif row.stage == TRAIN and row.client != FEDERATION:
            facts, value = self.clients[row.client], row.value
            if row.metric == SAMPLES:
                value = value / self._epochs + facts.get(SAMPLES, 0.0)
            facts[row.metric] = value
        self._go_on(row.round, row.stage)

    def _go_on(self, round_number: int, over: str) -> None:
        """Find what is under way now that a stage is over; rows of a stage come all at once, at its end."""
        following = self._rounds.stage_after(round_number, over) if self._rounds else None
        self.rounds, stage = following or (round_number + 1, "end")
        self.stage = f"round {self.rounds + 1}: {stage}" if self.rounds < self._last else "all rounds done"

    def _read_plan(self) -> None:
        """The run's own plan, which is there before its first row."""
        plan = plan_of_run(self._directory)
        self._rounds, self._last = plan.rounds, plan.aggregator.rounds_to_train
        if isinstance(plan.data, DrivingSettings):
            self._epochs, self.counts = plan.data.epochs, "frames"
