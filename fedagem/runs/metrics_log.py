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
TRAIN_SECONDS = "train_seconds"
BUFFER_GRADIENT_SECONDS = "buffer_gradient_seconds"
BYTES_DOWN = "bytes_down"
BYTES_UP = "bytes_up"
SAMPLES = "samples"
LOSS = "loss"
REFINED_SHARE = "refined_share"
"""The share of batches whose gradient Fed-A-GEM changed."""
BUFFER = "buffer"
"""How many samples a client's buffer holds."""

ACCURACY = "accuracy/"
"""Prefix of accuracies by scenario; such a row holds a value for each task."""
MAP_50 = "map_50/"
"""Prefix of mAP at an overlap of 0.5, by domain."""
MAP = "map/"
"""Prefix of mAP averaged over overlaps, by domain."""
AP_50 = "ap_50/"
"""Prefix of average precision by class."""
LOSS_TERM = "loss/"
"""Prefix of the terms that a loss is the sum of."""
BUFFER_DOMAIN = "buffer/"
"""Prefix of a buffer's samples by domain."""
ALL_DOMAINS = f"{MAP_50}all"
"""mAP over the frames of all domains."""

Curve = dict[int, float]
"""A value by the number of rounds that the model was trained for."""

SMOOTHED = 3
"""Evaluations of mAP that a level averages: a detector in training jumps from round to round."""

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
    """The mean over the tasks if there is a value for each."""
    by_task: tuple[float, ...] = ()
    """The values of the tasks, in their order; empty if the metric has a single value."""

    @classmethod
    def parse(cls, line: str | bytes) -> "MetricRow":
        """A line of the log; a ValueError, KeyError or TypeError says what is wrong with it."""
        fields: dict[str, Any] = json.loads(line)
        value, by_task = fields["value"], ()
        if isinstance(value, list):
            value, by_task = mean(value), tuple(value)
        if not isinstance(value, (int, float)):
            raise TypeError(f"value must be a number or a list of numbers, not {value!r}")
        return cls(int(fields["round"]), fields["stage"], fields["client"], fields["metric"], value, by_task)

    @property
    def trained(self) -> int:
        """The number of rounds that the model of this row was trained for."""
        return 0 if self.stage == BASELINE else self.round + 1

    @property
    def part(self) -> str:
        """What follows the prefix of the metric: a scenario, a domain, a class or a term; empty without a prefix."""
        return self.metric.partition("/")[2]


def read_metrics(directory: Path) -> list[MetricRow]:
    """All rows of a run; a last row that is still being written is left out."""
    path = directory / LOG_NAME
    if not path.exists():
        raise FedAGemError(f"{directory} has no {LOG_NAME}: the run has not begun, or this is not a run.")
    text = path.read_text(encoding="utf-8")
    rows = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
        try:
            rows.append(MetricRow.parse(line))
        except (ValueError, KeyError, TypeError) as problem:
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


def last_evaluation(runs: Iterable[dict[str, Curve]]) -> int | None:
    """After how many rounds every curve of every run was still evaluated."""
    return min((max(curve) for curves in runs for curve in curves.values()), default=None)


def levels(name: str, curve: Curve, shift: int | None) -> dict[str, float]:
    """The curve's level before and after the shift, or at the end if no shift divides it."""
    rounds = sorted(curve)
    moments = {"end": rounds}
    if shift is not None:
        moments = {"before": [n for n in rounds if n <= shift], "after": [n for n in rounds if n > shift]}
    last = SMOOTHED if name.startswith(MAP_50) else 1
    return {moment: mean(curve[n] for n in numbers[-last:]) for moment, numbers in moments.items() if numbers}


def shown_name(metric: str) -> str:
    """How people read a metric's name: `map_50/city` becomes `mAP@0.5 city`."""
    return " ".join(_SHOWN.get(part, part) for part in metric.split("/"))
