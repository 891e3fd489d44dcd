"""The paper's numbers compared with ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from fedagem.studies.runs import StudyRun
from fedagem.studies.study import Figure, Part, Row, Study

_COSTS = ("seconds", "client_seconds", "train_seconds", "bytes")
"""Metrics that are not shares: they compare by their ratio. Everything else is shown in per cent."""


@dataclass(frozen=True)
class Line:
    """One row of a table for one metric: the paper and ours, without and with Fed-A-GEM."""

    plan: str
    metric: str
    label: str
    paper_without: Figure | None
    ours_without: Figure | None
    paper_with: Figure | None
    ours_with: Figure | None
    paper_reference: Figure | None
    """What `with` is compared with: the row's own `without`, or the baseline's."""
    ours_reference: Figure | None

    @property
    def paper_difference(self) -> float | None:
        """What Fed-A-GEM changed in the paper."""
        return _difference(self.paper_with, self.paper_reference)

    @property
    def our_difference(self) -> float | None:
        """What Fed-A-GEM changed here."""
        return _difference(self.ours_with, self.ours_reference)

    @property
    def is_cost(self) -> bool:
        """Whether the metric is time or traffic, of which the ratio tells more than the difference."""
        return self.metric.partition(".")[0] in _COSTS

    @property
    def paper_ratio(self) -> float | None:
        """By what Fed-A-GEM multiplied a cost in the paper."""
        return _ratio(self.paper_with, self.paper_reference) if self.is_cost else None

    @property
    def our_ratio(self) -> float | None:
        """By what Fed-A-GEM multiplied a cost here."""
        return _ratio(self.ours_with, self.ours_reference) if self.is_cost else None

    @property
    def verdict(self) -> str:
        """Whether the direction is the paper's; a difference smaller than the spread of the seeds proves little."""
        theirs, ours = self.paper_difference, self.our_difference
        if theirs is None or ours is None:
            return "-"
        if ours == 0:
            return "no difference"
        answer = "yes" if (theirs > 0) == (ours > 0) else "no"
        figures = (self.ours_with, self.ours_reference)
        spreads = [figure.spread for figure in figures if figure and figure.spread is not None]
        return f"{answer} (within spread)" if spreads and abs(ours) < max(spreads) else answer


def compare(study: Study, runs: Sequence[StudyRun]) -> list[Line]:
    """All lines of a study's tables from its finished runs."""
    measured: dict[tuple[int, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        if run.finished:
            measured.setdefault((run.part, run.label, run.side), []).append(run.results())
    return [
        _line(part, position, row, measured, number)
        for number, part in enumerate(study.parts)
        for position in range(len(part.metrics))
        for row in part.rows
    ]


def _line(
    part: Part, position: int, row: Row, measured: dict[tuple[int, str, str], list[dict[str, Any]]], number: int
) -> Line:
    metric = part.metrics[position]

    def paper(of: Row, side: str) -> Figure | None:
        figures = of.figures(side)
        return Figure.parse(figures[position], of.label) if figures else None

    def ours(of: Row, side: str) -> Figure | None:
        return mean_and_spread([_value(results, metric) for results in measured.get((number, of.label, side), [])])

    reference = row
    if row.without is None and part.baseline is not None:
        reference = next(other for other in part.rows if other.label == part.baseline)
    return Line(
        part.shown or part.plan,
        metric,
        row.label,
        paper(row, "without"),
        ours(row, "without"),
        paper(row, "with"),
        ours(row, "with"),
        paper(reference, "without"),
        ours(reference, "without"),
    )


def _value(results: dict[str, Any], metric: str) -> float | None:
    """A number of results.json by its path; shares become per cent."""
    value: Any = results
    for key in metric.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, (int, float)):
        return None
    return float(value) if metric.partition(".")[0] in _COSTS else 100 * float(value)


def mean_and_spread(values: Sequence[float | None]) -> Figure | None:
    """Over the seeds; None of nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Figure(mean(known), stdev(known) if len(known) > 1 else None)


def _difference(changed: Figure | None, reference: Figure | None) -> float | None:
    return None if changed is None or reference is None else changed.mean - reference.mean


def _ratio(changed: Figure | None, reference: Figure | None) -> float | None:
    return None if changed is None or reference is None or not reference.mean else changed.mean / reference.mean
