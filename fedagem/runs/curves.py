"""What a run's evaluations measured, round after round, and the levels that this makes before and after a shift."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import mean
from typing import Any

Curve = dict[int, float]
"""A value by the number of rounds the model was trained for."""
SMOOTHED = 3
"""Evaluations of mAP that a level averages: a detector in training jumps from round to round."""
MAP = "map_50/"
"""How the metrics begin whose domains are scored by mAP."""


def curves_of(rows: Iterable[dict[str, Any]]) -> dict[str, Curve]:
    """mAP by domain, or the mean accuracy over all tasks."""
    curves: dict[str, Curve] = defaultdict(dict)
    for row in rows:
        trained = 0 if row["stage"] == "baseline" else row["round"] + 1
        if row["metric"].startswith(MAP):
            curves[row["metric"]][trained] = row["value"]
        elif row["metric"].startswith("accuracy/"):
            curves[row["metric"]][trained] = mean(row["value"])
    return dict(curves)


def last_evaluation(runs: Iterable[dict[str, Curve]]) -> int | None:
    """After how many rounds every curve of every run was still evaluated."""
    return min((max(curve) for curves in runs for curve in curves.values()), default=None)


def levels(name: str, curve: Curve, shift: int | None) -> dict[str, float]:
    """The curve's level before and after the shift, or at the end where there is none to divide it."""
    rounds = sorted(curve)
    moments = {"end": rounds}
    if shift is not None:
        moments = {"before": [n for n in rounds if n <= shift], "after": [n for n in rounds if n > shift]}
    last = SMOOTHED if name.startswith(MAP) else 1
    return {moment: mean(curve[n] for n in numbers[-last:]) for moment, numbers in moments.items() if numbers}
