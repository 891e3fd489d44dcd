"""What a run has reported so far, read from its metrics.jsonl while it is being written."""

import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean

from fedagem.learning.methods import METHODS
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.rounds import RoundSettings, Stage
from fedagem.runs.at_work import who_is_at_work
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import (
    ACCURACY,
    BYTES_DOWN,
    BYTES_UP,
    FEDERATION,
    GIVEN_UP,
    LOG_NAME,
    LOSS,
    MAP_50,
    REFINED_SHARE,
    SAMPLES,
    SECAGG_SECONDS,
    SECONDS,
    TRAIN,
    MetricRow,
    shown_name,
)
from fedagem.runs.standing import read_standing

_WORTH_SAYING_SECONDS = 5.0
"""Who is awaited is said if the stage takes longer: most of the time they are just at work."""

_MEAN = "mean"
"""Stands for the clients if their metrics are summed before anybody sees them."""
_NOT_OF_CLIENTS = {SECONDS, SECAGG_SECONDS, GIVEN_UP, BYTES_DOWN, BYTES_UP}
"""Metrics that say nothing about what clients learn."""


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
        parts = [", ".join(filter(None, (self.under_way(), self.waiting())))]
        for metric, form in ((LOSS, "loss {:.3f}"), (REFINED_SHARE, "refined {:.0%}")):
            if values := [facts[metric] for facts in self.clients.values() if metric in facts]:
                parts.append(form.format(mean(values)))
        return "  ".join(filter(None, (*parts, self.scores())))

    def under_way(self) -> str:
        """The stage, and how far the clients are that are at work in it."""
        working = who_is_at_work(self._directory)
        return self.stage if working is None else f"{self.stage}, {working}"

    def waiting(self) -> str:
        """Who is awaited for long and since when, and whom the federation goes on without; mostly nobody."""
        standing = read_standing(self._directory)
        if standing is None or (time.time() - standing.since < _WORTH_SAYING_SECONDS and not standing.absent):
            return ""
        return str(standing)

    def _start_over_if_replaced(self, status: os.stat_result) -> None:
        """A restarted aggregator takes back the rows of the round that it repeats, by writing the file again."""
        if status.st_ino != self._file_number or status.st_size < self._position:
            self._file_number, self._position = status.st_ino, 0
            self.clients.clear()
            self._scores.clear()

    def _take(self, row: MetricRow) -> None:
        if row.metric.startswith((ACCURACY, MAP_50)):
            self._scores[row.metric] = row.value
        elif row.stage == TRAIN and row.metric not in _NOT_OF_CLIENTS:
            facts, value = self.clients[_MEAN if row.client == FEDERATION else row.client], row.value
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
        stages = [stage for stage in plan.rounds.stages if _has_work(plan, stage)]
        self._rounds = plan.rounds.model_copy(update={"stages": stages})
        self._last = plan.aggregator.rounds_to_train
        if isinstance(plan.data, DrivingSettings):
            self._epochs, self.counts = plan.data.epochs, "frames"


def _has_work(plan: Plan, stage: Stage) -> bool:
    """Whether the federation runs a stage: buffer gradients are Fed-A-GEM's, and ends of tasks are some methods'."""
    functions = {plan.tasks[task].function for task in stage.tasks}
    if functions == {"end_task"}:
        method = METHODS.get(plan.training.method)
        return method is None or method.needs_boundaries
    return functions != {"buffer_gradient"} or plan.training.fedagem
