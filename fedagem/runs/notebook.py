"""A run as notebooks use it: what it measured as plain objects, and as data frames if pandas is installed."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedagem.errors import FedAGemError
from fedagem.runs.metrics_log import DRAWN, Curve, MetricRow, curves_of, read_metrics
from fedagem.runs.results import Results, Scalar, collect_results, scalars

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Run:
    """What a run had measured when it was loaded."""

    directory: Path
    rows: list[MetricRow]
    """Every row of metrics.jsonl."""
    results: Results
    """What results.json holds."""

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Run:
        """Read a run; refuses a folder that is none, or that has measured nothing yet."""
        place = Path(directory)
        return cls(place, read_metrics(place), collect_results(place))

    @property
    def curves(self) -> dict[str, Curve]:
        """mAP by domain or mean accuracy by scenario, each by the number of rounds trained."""
        return curves_of(self.rows)

    def rows_frame(self) -> DataFrame:
        """All rows but draws; a metric with a value for each task has a row for each `task`, from 1."""
        records = [
            (row.round, row.trained, row.stage, row.client, row.metric, task, value)
            for row in self.rows
            if not row.metric.startswith(DRAWN)
            for task, value in (enumerate(row.several, start=1) if row.several else [(None, row.value)])
        ]
        return _frame(records, ["round", "trained", "stage", "client", "metric", "task", "value"])

    def curves_frame(self) -> DataFrame:
        """A row for each point of each curve."""
        points = [(name, trained, value) for name, curve in self.curves.items() for trained, value in curve.items()]
        return _frame(points, ["metric", "trained", "value"])

    def results_frame(self) -> DataFrame:
        """The rows of results.csv; `Scalar` describes its columns."""
        columns = [column.name for column in dataclasses.fields(Scalar)]
        return _frame([dataclasses.astuple(scalar) for scalar in scalars(self.results)], columns)


def _frame(records: Sequence[tuple[Any, ...]], columns: list[str]) -> DataFrame:
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as problem:
        raise FedAGemError("data frames need pandas, which is not installed: run `pip install pandas`.") from problem
    frame = pandas.DataFrame.from_records(records, columns=columns)
    return frame.astype({"task": "Int64"}) if "task" in columns else frame
