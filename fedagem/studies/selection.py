"""Which rows of a study are run: those of some methods, one's own among them, and those whose weights are here."""

from collections.abc import Sequence

from fedagem.errors import PlanError
from fedagem.learning.methods import METHODS, find_method
from fedagem.settings import suggestion
from fedagem.studies.data import needs_of
from fedagem.studies.runs import StudyRun
from fedagem.studies.study import Part, Row, Study


def with_methods(study: Study, names: str | None) -> Study:
    """The study with the rows of some methods only; one's own, named by its dotted path, gets rows of its own."""
    if names is None:
        return study
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        _check(name, study)
    parts = [_with_methods(part, chosen) for part in study.parts]
    return study.model_copy(update={"parts": [part for part in parts if part.rows]})


def with_weights_here(runs: Sequence[StudyRun]) -> tuple[list[StudyRun], list[str]]:
    """The runs whose files of weights are on this machine, and a sentence for each row that has to be left out."""
    kept, reasons = [], {}
    for run in runs:
        missing = [path for need in needs_of(run.plan) if need.kind == "weights" for path in need.missing()]
        if missing and not run.finished:
            reasons[run.label] = (
                f"{run.label} is left out: {missing[0]} is missing; `fedagem data` says where to get it."
            )
        else:
            kept.append(run)
    if reasons and not kept:
        raise PlanError(" ".join(reasons.values()))
    return kept, list(reasons.values())


def _check(name: str, study: Study) -> None:
    rows = {row.method for part in study.parts for row in part.rows}
    if "." in name:
        find_method(name)
    elif name not in METHODS:
        raise PlanError(f"--methods has {name!r}{suggestion(name, METHODS)}")
    elif name not in rows:
        there = ", ".join(sorted(rows))
        raise PlanError(f"--methods has {name!r}, but the study {study.name} has rows for {there} only.")


def _with_methods(part: Part, names: Sequence[str]) -> Part:
    rows = [row for row in part.rows if row.method in names or (row.label == part.baseline)]
    if part.shown is None:  # a part of its own is there for the network of one method
        rows += [Row(label=name, method=name, without=[], with_=[]) for name in names if "." in name]
    return part.model_copy(update={"rows": rows if any(row.method in names for row in rows) else []})
