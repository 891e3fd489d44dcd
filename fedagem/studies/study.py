"""A study: the plans and variations behind one table or figure of the paper, and the numbers printed there."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from fedagem.errors import PlanError
from fedagem.settings import Settings, parse_settings, suggestion

SIDES = ("without", "with")
"""A method alone, and with Fed-A-GEM."""


_SEEDS = "the seeds of a study are 0, 1, and so on: say how many with --seeds"
_OWN = {
    "task_runner.settings.method": "the rows of this study vary the method",
    "task_runner.settings.method_settings": "the rows of this study vary the settings of the method",
    "task_runner.settings.fedagem": "every row of this study is run without and with Fed-A-GEM",
    "data_loader.settings.seed": _SEEDS,
    "assigner.settings.seed": _SEEDS,
    "aggregator.settings.rounds_to_train": "a study counts rounds by task: set data_loader.settings.rounds_per_task",
}
"""Settings that belong to every study, and why."""


@dataclass(frozen=True)
class Figure:
    """A number of the paper or of ours, with its standard deviation if that is known."""

    mean: float
    spread: float | None = None
    written: str | None = field(default=None, compare=False)
    """The spread as the paper prints it."""

    @classmethod
    def parse(cls, value: Any, path: str) -> "Figure | None":
        """From a YAML value: 68.02, `68.02±3.1`, or nothing if the paper has no number."""
        if value is None:
            return None
        found = re.fullmatch(r"(-?[\d.]+)(?:±([\d.]+))?", str(value))
        if not found:
            raise PlanError(f"{path} is {value!r}, but should be a number like 68.02 or 68.02±3.1.")
        return cls(float(found[1]), float(found[2]) if found[2] else None, found[2])


class Scale(Settings):
    """How much of an experiment is run: settings that replace the plan's."""

    rounds_per_task: int | None = None
    set: dict[str, Any] = Field(default_factory=dict)

    def besides(self, assignments: Iterable[str]) -> "Scale":
        """The scale without the settings that the command line changes, as a whole or in part."""
        given = [assignment.partition("=")[0] for assignment in assignments]
        kept = {path: value for path, value in self.set.items() if not any(overlap(path, other) for other in given)}
        return Scale(rounds_per_task=self.rounds_per_task, set=kept)


class Row(Settings):
    """One line of a table: a variation, run without Fed-A-GEM, with it, or both."""

    label: str
    method: str = "fedavg"
    method_settings: dict[str, Any] = Field(default_factory=dict)
    set: dict[str, Any] = Field(default_factory=dict)
    fewer_rounds: int = 1
    """Communicate so many times less often: fewer rounds with as many more local epochs in each."""
    without: list[Any] | None = None
    """The paper's numbers in the order of the part's metrics; an empty list runs it without numbers to compare."""
    with_: list[Any] | None = None

    def figures(self, side: str) -> list[Any] | None:
        """The paper's numbers of one side, or None if that side is not run."""
        return self.without if side == "without" else self.with_


class Part(Settings):
    """The rows of a table that share a plan."""

    plan: str
    shown: str | None = None
    """The plan whose tables its rows belong to, if it is not its own: a method may need a network of its own."""
    metrics: list[str]
    """Paths within results.json, such as `accuracy.task_il`."""
    rows: list[Row]
    baseline: str | None = None
    """The row that rows without a side `without` are compared with."""
    scales: dict[str, Any] = Field(default_factory=dict)
    """Where this part differs from the plan's usual scales."""

    def name_of(self, row: Row, side: str) -> str:
        """What one side of a row is called; a row that names a way of refining needs no mention of Fed-A-GEM."""
        own = row.without is None and self.baseline is not None and not row.label.startswith(self.baseline)
        return f"{row.label} + Fed-A-GEM" if side == "with" and not own else row.label


class Assembly(Settings):
    """A table that is made of the runs of other studies."""

    studies: list[str]
    """The studies whose parts it takes."""
    metrics: str
    """Which of their metrics: those whose path begins with this."""

    def part_of(self, part: Part) -> Part:
        """The part with these metrics alone."""
        places = [place for place, metric in enumerate(part.metrics) if metric.startswith(f"{self.metrics}.")]

        def chosen(figures: list[Any] | None) -> list[Any] | None:
            return [figures[place] for place in places] if figures else figures

        rows = [
            row.model_copy(update={"without": chosen(row.without), "with_": chosen(row.with_)}) for row in part.rows
        ]
        return part.model_copy(update={"metrics": [part.metrics[place] for place in places], "rows": rows})


class Study(Settings):
    """One table or figure of the paper."""

    name: str
    title: str
    paper: str
    """Where the paper shows it."""
    parts: list[Part] = Field(default_factory=list)
    assembles: Assembly | None = None
    """What a table over several studies is made of; it has no parts of its own."""
    notes: str = ""
    plots: list[str] = Field(default_factory=lambda: ["progress"])
    """`progress` (Acc and Fgt by task), `first_task`, `current_task`."""


def check_assignments(study: Study, assignments: Iterable[str], option: str = "--set") -> None:
    """Refuse an assignment that would contradict the label of a row, or that the study would overrule in silence."""
    for assignment in assignments:
        path = assignment.partition("=")[0]
        for own, reason in _OWN.items():
            if overlap(path, own):
                raise PlanError(f"{option} {assignment} cannot be used here: {reason}.")
        for row in (row for part in study.parts for row in part.rows):
            for varied in row.set:
                if overlap(path, varied):
                    raise PlanError(
                        f"{option} {assignment} cannot be used here: the rows of this study vary {varied} (as in "
                        f"{row.label!r}), so leave it out, or write your own study in plan/studies."
                    )


def overlap(path: str, other: str) -> bool:
    """Whether one of two dotted paths is the other, or a part of it, so that changing one changes both."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def study_names(folder: Path) -> list[str]:
    """All studies, by name."""
    return sorted(path.stem for path in (folder / "studies").glob("*.yaml"))


def load_study(folder: Path, name: str) -> Study:
    """A study by name; refuses unknown ones and unknown keys."""
    names = study_names(folder)
    if name not in names:
        raise PlanError(f"there is no study {name!r}{suggestion(name, names)}")
    path = folder / "studies" / f"{name}.yaml"
    content = _read(path)
    for part in content.get("parts", []):
        for row in part.get("rows", []):
            if "with" in row:
                row["with_"] = row.pop("with")
    study = parse_settings(Study, {**content, "name": name}, str(path))
    if (assembly := study.assembles) is not None:
        parts = [assembly.part_of(part) for other in assembly.studies for part in load_study(folder, other).parts]
        return study.model_copy(update={"parts": parts})
    for part in study.parts:
        _check_part(part, path)
    return study


def load_scale(folder: Path, part: Part, name: str) -> Scale:
    """The settings of a scale for a part: the plan's usual ones and the part's own on top."""
    path = folder / "scales.yaml"
    usual = _read(path).get(part.plan, {})
    if name not in usual:
        raise PlanError(f"{path} has no scale {name!r} for the plan {part.plan}{suggestion(name, usual)}")
    scale = parse_settings(Scale, usual[name] or {}, f"{path}: {part.plan}.{name}")
    own = parse_settings(Scale, part.scales.get(name) or {}, f"the study's scales.{name}")
    return Scale(rounds_per_task=own.rounds_per_task or scale.rounds_per_task, set={**scale.set, **own.set})


def _check_part(part: Part, path: Path) -> None:
    labels = [row.label for row in part.rows]
    if len(set(labels)) != len(labels):
        raise PlanError(f"{path}: two rows of the plan {part.plan} have the same label.")
    if part.baseline is not None and part.baseline not in labels:
        raise PlanError(f"{path}: the baseline is {part.baseline!r}{suggestion(part.baseline, labels)}")
    for row in part.rows:
        for side in SIDES:
            given = row.figures(side)
            for value in given or []:
                Figure.parse(value, f"{path}: {row.label}, {side}")
            if given and len(given) != len(part.metrics):
                raise PlanError(
                    f"{path}: {row.label}, {side} has {len(given)} numbers for {len(part.metrics)} metrics."
                )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PlanError(f"{path} cannot be read: {problem.strerror}.") from problem
    except yaml.YAMLError as problem:
        raise PlanError(f"{path} is not valid YAML: {' '.join(str(problem).split())}.") from problem
    if not isinstance(content, dict):
        raise PlanError(f"{path} must be a mapping.")
    return content
