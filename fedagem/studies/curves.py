"""How accuracy and forgetting develop from task to task: the numbers and the pictures of a study."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedagem.errors import PlanError
from fedagem.learning.metrics import Matrix, average_accuracy, average_forgetting
from fedagem.runs.metrics_log import shown_name
from fedagem.settings import suggestion
from fedagem.studies.comparison import mean_and_spread
from fedagem.studies.runs import StudyRun
from fedagem.studies.study import Figure, Study

PLOTS: dict[str, list[tuple[str, int, Callable[[Matrix, int], float]]]] = {
    "progress": [
        ("Acc, higher is better", 1, average_accuracy),
        ("Fgt, lower is better", 2, average_forgetting),
    ],
    "first_task": [("accuracy on task 1", 1, lambda matrix, t: matrix[t][0])],
    "current_task": [("accuracy on the current task", 1, lambda matrix, t: matrix[t][t - 1])],
}
"""Each picture's panels: what is shown, first task with a value, and the value after task t."""


@dataclass(frozen=True)
class Curve:
    """One line of a picture, over all seeds."""

    plan: str
    scenario: str
    plot: str
    quantity: str
    row: str
    side: str
    name: str
    """What the line is called in front of people."""
    points: dict[int, Figure]
    """By the number of tasks learned, in per cent."""


def curves_of(study: Study, runs: Sequence[StudyRun]) -> list[Curve]:
    """All lines of a study's pictures, from its finished runs."""
    curves = []
    for number, part in enumerate(study.parts):
        matrices = _matrices([run for run in runs if run.part == number and run.finished])
        for plot in study.plots:
            if plot not in PLOTS:
                raise PlanError(f"the study {study.name} asks for the plot {plot!r}{suggestion(plot, PLOTS)}")
            for (scenario, row, side, name), measured in matrices.items():
                for quantity, first, value in PLOTS[plot]:
                    tasks = range(first, min(len(matrix) for matrix in measured))
                    found = {t: mean_and_spread([100 * value(matrix, t) for matrix in measured]) for t in tasks}
                    points = {task: figure for task, figure in found.items() if figure is not None}
                    curves.append(Curve(part.plan, scenario, plot, quantity, row, side, name, points))
    return curves


def csv_curves(curves: Sequence[Curve]) -> str:
    """One row per point, with full precision."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["plan", "scenario", "plot", "quantity", "row", "side", "task", "mean", "spread"])
    for curve in curves:
        facts = [curve.plan, curve.scenario, curve.plot, curve.quantity, curve.row, curve.side]
        for task, figure in curve.points.items():
            writer.writerow([*facts, task, figure.mean, figure.spread])
    return out.getvalue()


def markdown_curves(curves: Sequence[Curve]) -> str:
    """A table for each picture of which the paper prints no numbers: a line for each row, a column for each task."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        if curve.plot != "progress":
            caption = f"{curve.plan}: {curve.quantity} after each task, {shown_name(curve.scenario)}"
            groups.setdefault(caption, []).append(curve)
    return "\n".join(f"### {caption}\n\n{_table(group)}" for caption, group in groups.items())


def _table(curves: Sequence[Curve]) -> str:
    tasks = sorted({task for curve in curves for task in curve.points})
    rows = [["", *map(str, tasks)], ["---", *["---:"] * len(tasks)]]
    for curve in curves:
        means = {task: f"{figure.mean:.2f}" for task, figure in curve.points.items()}
        rows.append([curve.name, *(means.get(task, "-") for task in tasks)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _matrices(runs: Sequence[StudyRun]) -> dict[tuple[str, str, str, str], list[Matrix]]:
    """Accuracy matrices of all seeds by scenario, row, side and name."""
    found: dict[tuple[str, str, str, str], list[Matrix]] = {}
    for run in runs:
        for scenario, matrix in run.results().get("accuracy_matrix", {}).items():
            found.setdefault((scenario, run.label, run.side, run.name), []).append(matrix)
    return found


def draw_curves(curves: Sequence[Curve], out: Path) -> list[Path]:
    """One picture per plan, scenario and kind of plot; lines are means over the seeds, dotted without Fed-A-GEM."""
    pictures: dict[str, list[Curve]] = {}
    for curve in curves:
        pictures.setdefault(f"{curve.plan}-{curve.scenario}-{curve.plot}.png", []).append(curve)
    for name, shown in pictures.items():
        _draw(shown, out / name)
    return [out / name for name in pictures]


def _draw(curves: Sequence[Curve], path: Path) -> None:
    from matplotlib.figure import Figure

    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        panels.setdefault(curve.quantity, []).append(curve)
    rows = list(dict.fromkeys(curve.row for curve in curves))
    figure = Figure(figsize=(4.8 * len(panels), 3.6), layout="constrained")
    subplots = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (quantity, shown) in zip(subplots, panels.items(), strict=True):
        for curve in shown:
            axes.plot(
                list(curve.points),
                [point.mean for point in curve.points.values()],
                "-o" if curve.side == "with" else ":o",
                color=f"C{rows.index(curve.row) % 10}",
                label=curve.name,
                markersize=4,
            )
        axes.set(title=f"{quantity} ({shown_name(curves[0].scenario)})", xlabel="tasks learned", ylabel="%")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
