"""Sweeps: the same runs with every combination of some values of some settings."""

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import yaml

from fedagem.errors import PlanError
from fedagem.runs.results import Results, Scalar, scalars
from fedagem.studies.study import Part, Study, check_assignments, overlap


@dataclass(frozen=True)
class Point:
    """One combination: a value, as it was written, for each setting."""

    values: Mapping[str, str]
    """By the dotted path of the setting."""

    @property
    def assignments(self) -> tuple[str, ...]:
        """As changes to a plan."""
        return tuple(f"{path}={value}" for path, value in self.values.items())

    @property
    def names(self) -> list[str]:
        """What people call the settings: the last words of their paths, as many as tell them apart."""
        words = [path.split(".") for path in self.values]
        for length in range(1, max(map(len, words), default=1)):
            ends = [".".join(path[-length:]) for path in words]
            if len(set(ends)) == len(ends):
                return ends
        return list(self.values)

    @property
    def label(self) -> str:
        """What the point is called in tables."""
        return ", ".join(f"{name}={value}" for name, value in zip(self.names, self.values.values(), strict=True))

    @property
    def file_name(self) -> str:
        """The label as a part of a file's name."""
        return re.sub(r"[^\w+.=,-]", "_", self.label.replace(", ", ","))


NOWHERE = Point({})
"""What is not a sweep has this one point."""


def grid(sweeps: Sequence[str]) -> list[Point]:
    """All combinations of `path=value,value` sweeps, the last one varying fastest; one point if there are none."""
    values: dict[str, list[str]] = {}
    for sweep in sweeps:
        path, equals, text = sweep.partition("=")
        if not (path and equals):
            raise PlanError(f"--sweep takes path.in.plan=value,value, not {sweep!r}.")
        for other in values:
            if overlap(path, other):
                raise PlanError(f"--sweep {path} and --sweep {other} change the same setting: give one of them.")
        values[path] = _values(sweep, text)
    return [Point(dict(zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values())]


def check_sweep(points: Sequence[Point], assignments: Sequence[str]) -> None:
    """Refuse a sweep over a setting that --set changes for all runs."""
    for path in points[0].values:
        for assignment in assignments:
            if overlap(path, assignment.partition("=")[0]):
                raise PlanError(f"--set {assignment} and --sweep {path} change the same setting: give one of them.")


class SweptPart(Part):
    """The rows of a part at one point, with labels that say so."""

    point: Point


def point_of(part: Part) -> Point:
    """The point of a part; that of a part that is not swept has no values."""
    return part.point if isinstance(part, SweptPart) else NOWHERE


def swept(study: Study, points: Sequence[Point]) -> Study:
    """The study with its parts once for each point; as it is if nothing is swept."""
    if list(points) == [NOWHERE]:
        return study
    check_assignments(study, points[0].assignments, "--sweep")
    parts = [_at(point, part) for point in points for part in study.parts]
    return study.model_copy(update={"parts": parts})


def csv_of_sweep(runs: Sequence[tuple[Point, Results]]) -> str:
    """results.csv of many runs: the numbers of each, and a column for each setting that is swept."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    paths = list(runs[0][0].values) if runs else []
    writer.writerow([*(column.name for column in fields(Scalar)), *paths])
    for point, results in runs:
        writer.writerows([*astuple(scalar), *point.values.values()] for scalar in scalars(results))
    return text.getvalue()


def _at(point: Point, part: Part) -> SweptPart:
    rows = [row.model_copy(update={"label": f"{point.label}: {row.label}"}) for row in part.rows]
    baseline = None if part.baseline is None else f"{point.label}: {part.baseline}"
    return SweptPart(**{**dict(part), "rows": rows, "baseline": baseline}, point=point)


def _values(sweep: str, text: str) -> list[str]:
    """The values of a sweep as they were written: commas within brackets and quotes do not divide."""
    try:
        node = yaml.compose(f"[{text}]")
    except yaml.YAMLError as problem:
        raise PlanError(f"--sweep {sweep} is not valid YAML: {' '.join(str(problem).split())}.") from problem
    assert isinstance(node, yaml.SequenceNode)
    written = [f"[{text}]"[value.start_mark.index : value.end_mark.index] for value in node.value]
    if not written:
        raise PlanError(f"--sweep {sweep} has no values: write path.in.plan=value,value.")
    twice = [value for value, count in Counter(written).items() if count > 1]
    if twice:
        raise PlanError(f"--sweep {sweep} has the value {twice[0]} twice.")
    return written
