"""metrics.jsonl: what its rows are, how metrics are named in it, and the curves and levels that evaluations make.

Nothing heavy is imported, so the processes that write the rows can use the same names.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from fedagem.errors import FedAGemError

LOG_NAME = "metrics.jsonl"
"""The log's name in the folder of a run."""

FEDERATION = "federation"
"""The `client` of rows that belong to no single client."""
BASELINE = "baseline"
"""The stage that evaluates the model before any training."""
TRAIN = "train"
"""The stage in which clients learn."""

SECONDS = "seconds"
"""How long a stage took."""
ABSENT = "absent"
"""A client that a stage went on without, because nothing was heard of it."""
TRAIN_SECONDS = "train_seconds"
BUFFER_GRADIENT_SECONDS = "buffer_gradient_seconds"
END_TASK_SECONDS = "end_task_seconds"
SECAGG_SECONDS = "secagg_seconds"
"""How much of a stage's time went into keys, agreements and openings of secure aggregation."""
GIVEN_UP = "given_up"
"""A stage whose protected sum was not opened; the value is the number of clients that had something to contribute."""
BYTES_DOWN = "bytes_down"
BYTES_UP = "bytes_up"
SAMPLES = "samples"
LOSS = "loss"
REFINED_SHARE = "refined_share"
"""The share of batches whose gradient Fed-A-GEM changed."""
COSINE = "cosine"
"""The cosine of the angle between what a client contributed to a stage and the mean; logged with robust means."""
EPSILON = "epsilon"
"""What was spent so far of the privacy of a client, with differential privacy."""
NOISE_LENGTH = "noise_length"
"""How long the noise of a stage's mean is, in multiples of the longest mean that there could be without it."""
BUFFER = "buffer"
"""How many samples a client's buffer holds."""

ACCURACY = "accuracy/"
"""Prefix of accuracies by scenario; such a row holds a value for each task."""
MAP_50 = "map_50/"
"""Prefix of mAP at an overlap of 0.5, by domain."""
MAP = "map/"
"""Prefix of mAP averaged over overlaps, by domain."""
AP_50 = "ap_50/"
"""Prefix of average precision at an overlap of 0.5, by domain and class."""
OBJECTS = "objects/"
"""Prefix of how many objects there are to find, by domain and class."""
DRAWN = "drawn/"
"""Prefix of another metric's name: what it is on other draws of the evaluation frames, a value for each draw."""
LOSS_TERM = "loss/"
"""Prefix of the terms that a loss is the sum of."""
BUFFER_DOMAIN = "buffer/"
"""Prefix of a buffer's samples by domain."""
ALL_DOMAINS = f"{MAP_50}all"
"""mAP over the frames of all domains."""

_OF_EVERY_STAGE = {SECONDS, BYTES_DOWN, BYTES_UP}
"""Metrics that several stages of a round have."""

Curve = dict[int, float]
"""A value by the number of rounds that the model was trained for."""

SMOOTHED = 3
"""How many evaluations the level of a detector before the shift averages, and that at the end."""

LOST = "lost"
"""The name of the difference of the levels before and after the shift."""

_SHOWN = {
    "map_50": "mAP@0.5",
    "map": "mAP@[.5:.95]",
    "ap_50": "AP@0.5",
    "domain_il": "domain-IL",
    "class_il": "class-IL",
    "task_il": "task-IL",
}


@dataclass(frozen=True)
class MetricRow:
    """One value that a stage of a round measured."""

    round: int
    stage: str
    client: str
    metric: str
    value: float
    """The mean if there are several."""
    several: tuple[float, ...] = ()
    """The values of the tasks in their order, or those of the draws; empty if the metric has a single value."""

    @classmethod
    def parse(cls, line: str | bytes) -> "MetricRow":
        """A line of the log; a ValueError, KeyError or TypeError says what is wrong with it."""
        fields: dict[str, Any] = json.loads(line)
        value, several = fields["value"], ()
        if isinstance(value, list):
            value, several = mean(value), tuple(value)
        if not isinstance(value, (int, float)):
            raise TypeError(f"value must be a number or a list of numbers, not {value!r}")
        return cls(int(fields["round"]), fields["stage"], fields["client"], fields["metric"], value, several)

    @property
    def trained(self) -> int:
        """The number of rounds that the model of this row was trained for."""
        return 0 if self.stage == BASELINE else self.round + 1

    @property
    def part(self) -> str:
        """What follows the prefix of the metric: a scenario, a domain, a class or a term; empty without a prefix."""
        return self.metric.partition("/")[2]


def series_of(row: MetricRow) -> dict[str, float]:
    """A row as trackers take it: one series per client and metric, one per task of an accuracy; draws are left out."""
    name = f"{row.client}/{row.metric}"
    if row.metric.startswith(DRAWN):
        return {}
    if row.several:
        return {f"{name}/task_{task}": value for task, value in enumerate(row.several, start=1)}
    return {f"{name}/{row.stage}" if row.metric in _OF_EVERY_STAGE else name: row.value}


def read_metrics(directory: Path) -> list[MetricRow]:
    """All rows of a run; a last row that is still being written is left out."""
    path = directory / LOG_NAME
    if not path.exists():
        raise FedAGemError(f"{directory} has no {LOG_NAME}: the run has not begun, or this is not a run.")
    content = path.read_bytes()
    rows = []
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            rows.append(MetricRow.parse(line))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as problem:
            raise FedAGemError(
                f"{path} is damaged: it must hold one JSON object in every line, with round, stage, client, metric and "
                f"value, but line {number} does not ({type(problem).__name__}: {problem})."
            ) from problem
    return rows


def total(rows: Iterable[MetricRow], *metrics: str) -> float:
    """The sum of all values of some metrics."""
    return sum(row.value for row in rows if row.metric in metrics)


def scenarios(rows: Iterable[MetricRow]) -> list[str]:
    """The scenarios that accuracies were measured in, such as `class_il`, sorted."""
    return sorted({row.part for row in rows if row.metric.startswith(ACCURACY)})


def curves_of(rows: Iterable[MetricRow]) -> dict[str, Curve]:
    """mAP by domain, or the mean accuracy over all tasks, by the name of the metric."""
    curves: dict[str, Curve] = defaultdict(dict)
    for row in rows:
        if row.metric.startswith((MAP_50, ACCURACY)):
            curves[row.metric][row.trained] = row.value
    return dict(curves)


def class_curves_of(rows: Iterable[MetricRow]) -> dict[str, Curve]:
    """Average precision by domain and class, by the name of the metric."""
    curves: dict[str, Curve] = defaultdict(dict)
    for row in rows:
        if row.metric.startswith(AP_50):
            curves[row.metric][row.trained] = row.value
    return dict(curves)


def draws_of(rows: Iterable[MetricRow]) -> dict[str, dict[int, tuple[float, ...]]]:
    """The values on other draws of the frames, by the name of the metric and the number of rounds trained."""
    draws: dict[str, dict[int, tuple[float, ...]]] = defaultdict(dict)
    for row in rows:
        if row.metric.startswith(DRAWN):
            draws[row.metric.removeprefix(DRAWN)][row.trained] = row.several
    return dict(draws)


def last_evaluation(runs: Iterable[dict[str, Curve]]) -> int | None:
    """After how many rounds every curve of every run was still evaluated."""
    return min((max(curve) for curves in runs for curve in curves.values()), default=None)


def moments(name: str, rounds: Iterable[int], shift: int | None) -> dict[str, list[int]]:
    """Which evaluations make the levels of a curve: `before` and `after` the shift if there is one, and at the `end`.

    A detector in training jumps from round to round, so before and end are its last few evaluations.
    """
    known = sorted(rounds)
    last = SMOOTHED if name.startswith((MAP_50, AP_50)) else 1
    found = {"end": known[-last:]}
    if shift is not None:
        before, after = [n for n in known if n <= shift], [n for n in known if n > shift]
        found = {"before": before[-last:], "after": after, "end": after[-last:]}
    return {moment: numbers for moment, numbers in found.items() if numbers}


def levels(name: str, curve: Curve, shift: int | None) -> dict[str, float]:
    """The curve's level before and after the shift, what is lost between them, and at the end.

    Only at the end if no shift divides it.
    """
    found = {moment: mean(curve[n] for n in rounds) for moment, rounds in moments(name, curve, shift).items()}
    if {"before", "after"} <= found.keys():
        found[LOST] = found["before"] - found["after"]
    return found


def shown_name(metric: str) -> str:
    """How people read a metric's name: `map_50/city` becomes `mAP@0.5 city`."""
    return " ".join(_SHOWN.get(part, part) for part in metric.split("/"))
