"""report.html: one self-contained page that shows what a run, or a comparison of runs, has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fedagem.errors import FedAGemError
from fedagem.plans.driving import DrivingSettings
from fedagem.reports.answer import answer, question
from fedagem.reports.costs import COLUMNS, EXPLAINED, cost_rows, costs_of, preparation_seconds
from fedagem.reports.figures import comparison_panels
from fedagem.reports.memory_figures import buffer_panels, projection_panels
from fedagem.reports.privacy import privacy_note
from fedagem.reports.setting import setting_of
from fedagem.reports.summary import BASELINE, Runs, Summary, by_plan, summarise_runs
from fedagem.reports.tables import Grid, overviews
from fedagem.runs.folder import plan_of_run
from fedagem.runs.results import collect_results

if TYPE_CHECKING:
    from fedagem.reports.before_and_after import Strip


@dataclass(frozen=True)
class _Pictures:
    """What the models of some runs saw in the same frames."""

    strips: list[Strip] = field(default_factory=list)
    problem: str = ""
    """Why there are none."""


def pages_of(runs: Runs, out: Path) -> list[Path]:
    """Write a page for each plan; its name begins with the plan's if there are several."""
    plans = by_plan(runs)
    return [
        write_page(list(part), out / (f"{name}-report.html" if len(plans) > 1 else "report.html"))
        for name, part in plans.items()
    ]


def write_page(directories: Sequence[Path], path: Path) -> Path:
    """Write the page for one run or several; a browser that shows it requests nothing."""
    plans = [plan_of_run(directory) for directory in directories]
    last = plans[-1]
    summary = summarise_runs(directories)
    single = _one_per_method(directories)
    page = _template().render(
        name=last.name,
        style=Markup(Path(__file__).with_name("page.css").read_text(encoding="utf-8")),
        question=question(last.workload, summary),
        answer=answer(last.workload, summary),
        setting=setting_of(plans, summary) | _privacy(directories),
        panels=[Markup(panel) for panel in comparison_panels(directories)],
        reading=_reading(summary),
        overviews=overviews(summary),
        pictures=_pictures(_shown_methods(directories)),
        memory=[Markup(panel) for panel in (*projection_panels(single), *buffer_panels(single))],
        methods=_methods(summary),
        costs=_costs(directories, preparation=isinstance(last.data, DrivingSettings)),
        last_run=_name(directories[-1]) if len(directories) > 1 else None,
        plan=last.to_yaml(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("fedagem.reports", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sentence": _sentence, "cell": _cell}
    return environment.get_template("page.html.jinja")


def _sentence(text: str) -> str:
    """A note with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def _cell(text: str) -> str:
    """A narrow column breaks before the deviation and not within it."""
    return text.replace("± ", "±\N{NO-BREAK SPACE}")


def _name(directory: Path) -> str:
    """What a run is called, also if the command was started in its folder."""
    return directory.resolve().name


def _one_per_method(directories: Sequence[Path]) -> list[Path]:
    """The first run of each method: the pictures of the other seeds would show the same."""
    first: dict[str, Path] = {}
    for directory in directories:
        first.setdefault(plan_of_run(directory).label, directory)
    return list(first.values())


def _shown_methods(directories: Sequence[Path]) -> list[Path]:
    """The baseline above the methods with Fed-A-GEM, if there are both; all methods otherwise."""
    runs = _one_per_method(directories)
    labels = {run: plan_of_run(run).label for run in runs}
    refined = [run for run in runs if plan_of_run(run).training.fedagem]
    baseline = [run for run in runs if labels[run] == BASELINE]
    return [*baseline, *refined] if baseline and refined else runs


def _privacy(directories: Sequence[Path]) -> dict[str, str]:
    """What the runs' differential privacy is worth, once for runs of which the same can be said."""
    notes = dict.fromkeys(note for directory in directories if (note := privacy_note(collect_results(directory))))
    return {"privacy": " ".join(notes)} if notes else {}


def _reading(summary: Summary) -> str:
    """How to read the curves."""
    sentences = []
    if summary.tasks:
        sentences.append("Accuracy is the mean over all tasks, including those still to come.")
    several = len(summary.seeds) > 1
    if several:
        sentences.append("Lines are means over the seeds; ± in the tables is a standard deviation.")
    if summary.intervals:
        sentences.append(f"Bands hold 95 % of other draws of the frames{' and of the seeds' if several else ''}.")
    elif several:
        sentences.append("Bands reach from the lowest seed to the highest.")
    return " ".join(sentences)


def _pictures(directories: Sequence[Path]) -> _Pictures:
    if not isinstance(plan_of_run(directories[-1]).data, DrivingSettings):
        return _Pictures()
    from fedagem.reports.before_and_after import before_and_after

    try:
        return _Pictures(before_and_after(directories))
    except FedAGemError as problem:
        return _Pictures(problem=problem.message)


def _methods(summary: Summary) -> Grid:
    headings = [("method", ""), *((heading, "") for heading in COLUMNS)]
    return Grid("What each method costs", headings, cost_rows(summary.costs, BASELINE), EXPLAINED)


def _costs(directories: Sequence[Path], preparation: bool) -> Grid:
    rows = []
    for directory in directories:
        costs = costs_of(directory)
        stages = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in costs.seconds.items())
        traffic = f"{costs.megabytes_up:.0f} MB up, {costs.megabytes_down:.0f} MB down"
        rows.append([_name(directory), stages, traffic])
    return Grid(
        "Where the time and the bytes went",
        [("run", ""), ("time by stage", ""), ("traffic", "")],
        rows,
        _preparation(directories) if preparation else "",
    )


def _preparation(directories: Sequence[Path]) -> str:
    """What drives and warm-ups took before the rounds."""
    left_out = "recording drives and warming up a model come before the rounds and are not in these times"
    parts = [f"{name} {seconds:.0f} s" for name, seconds in preparation_seconds(directories).items()]
    return f"{left_out}: {', '.join(parts)}" if parts else left_out
