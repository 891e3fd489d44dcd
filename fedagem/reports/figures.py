"""Figures of runs: accuracy and forgetting task after task, mAP or accuracy round after round.

matplotlib is imported inside the functions: it takes a second, and most commands draw nothing.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from fedagem.learning.metrics import Matrix, average_accuracy, average_forgetting
from fedagem.reports.summary import Runs, by_plan, of_vehicles
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import Curve, curves_of, read_metrics, shown_name
from fedagem.runs.results import collect_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (4.2, 3.6)
"""Width and height in inches."""


def pictures_of(runs: Runs, out: Path) -> list[Path]:
    """Draw what belongs to each run; the names of pictures begin with the plan's if there are several plans."""
    pictures = draw_tasks(list(runs), out)
    plans = by_plan(of_vehicles(runs))
    for name, part in plans.items():
        pictures += draw_comparison(list(part), out, f"{name}-map" if len(plans) > 1 else "map")
    return pictures


def draw_tasks(directories: Iterable[Path], out: Path) -> list[Path]:
    """Accuracy and forgetting by task, one PNG per plan and scenario; averaged over seeds."""
    plans: dict[tuple[str, str], dict[str, list[Matrix]]] = defaultdict(lambda: defaultdict(list))
    for results in map(collect_results, directories):
        for scenario, matrix in results.accuracy_matrix.items():
            if len(matrix) > 1:
                plans[results.plan, scenario][results.label].append(matrix)
    several = len({name for name, _ in plans}) > 1
    pictures = []
    for (name, scenario), methods in plans.items():
        picture = out / (f"{name}-{scenario}.png" if several else f"{scenario}.png")
        out.mkdir(parents=True, exist_ok=True)
        _task_figure(f"{name}, {scenario.replace('_', '-')}", methods).savefig(picture, dpi=150)
        pictures.append(picture)
    return pictures


def draw_comparison(directories: Sequence[Path], out: Path, name: str = "comparison") -> list[Path]:
    """The paper's figure as PNG and SVG: one panel per domain, next to each other."""
    from matplotlib.figure import Figure

    lines, shift = _lines(directories)
    figure = Figure(figsize=(_PANEL[0] * max(len(lines), 1), _PANEL[1]), layout="constrained")
    panels = figure.subplots(1, max(len(lines), 1), squeeze=False)[0]
    for axes, metric in zip(panels, sorted(lines), strict=False):
        _draw_panel(axes, metric, lines[metric], shift)
    if lines:
        panels[0].legend(fontsize="small")
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def comparison_panels(directories: Sequence[Path]) -> list[str]:
    """The same panels one by one as SVG elements, for a page that may have to put them below each other."""
    from matplotlib.figure import Figure

    lines, shift = _lines(directories)
    panels = []
    for metric in sorted(lines):
        figure = Figure(figsize=_PANEL, layout="constrained")
        axes = figure.subplots()
        _draw_panel(axes, metric, lines[metric], shift)
        axes.legend(fontsize="small")
        panels.append(_svg(figure))
    return panels


def _task_figure(title: str, methods: dict[str, list[Matrix]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    figure.suptitle(title)
    accuracy_axes, forgetting_axes = figure.subplots(1, 2)
    for label, matrices in sorted(methods.items()):
        style = "-o" if "Fed-A-GEM" in label else ":o"
        tasks = range(1, min(len(matrix) for matrix in matrices))
        accuracy = [100 * mean(average_accuracy(matrix, t) for matrix in matrices) for t in tasks]
        accuracy_axes.plot(tasks, accuracy, style, label=label, markersize=4)
        forgetting = [100 * mean(average_forgetting(matrix, t) for matrix in matrices) for t in tasks if t > 1]
        forgetting_axes.plot(range(2, 2 + len(forgetting)), forgetting, style, label=label, markersize=4)
    for axes, heading in ((accuracy_axes, "Acc, higher is better"), (forgetting_axes, "Fgt, lower is better")):
        axes.set(title=heading, xlabel="tasks learned", ylabel="%")
        axes.grid(alpha=0.3)
    accuracy_axes.legend(fontsize="small")
    return figure


def _lines(directories: Sequence[Path]) -> tuple[dict[str, dict[str, list[Curve]]], int | None]:
    """The curves of all runs by metric and by method, and the round of the shift."""
    lines: dict[str, dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    shift = None
    for directory in directories:
        plan = plan_of_run(directory)
        shift = plan.workload.shift_round
        for metric, curve in curves_of(read_metrics(directory)).items():
            lines[metric][plan.label].append(curve)
    return lines, shift


def _draw_panel(axes: Axes, metric: str, lines: dict[str, list[Curve]], shift: int | None) -> None:
    """A line per method, a band for its seeds, and the shift if an evaluation followed it."""
    from matplotlib.ticker import MaxNLocator

    for label, curves in lines.items():
        rounds = sorted(set.intersection(*(set(curve) for curve in curves)))
        middle = [mean(curve[number] for curve in curves) for number in rounds]
        (line,) = axes.plot(rounds, middle, label=label, linewidth=1.8, marker="o", markersize=3)
        low = [min(curve[number] for curve in curves) for number in rounds]
        high = [max(curve[number] for curve in curves) for number in rounds]
        axes.fill_between(rounds, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    if shift is not None and any(max(curve) > shift for curves in lines.values() for curve in curves):
        axes.axvline(shift, color="0.4", linestyle="--", linewidth=1)
        axes.annotate(
            "shift",
            (shift, 0),
            (3, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize="small",
            color="0.4",
        )
    axes.set(title=shown_name(metric), xlabel="rounds", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def _svg(figure: Figure) -> str:
    """The figure as an SVG element without the XML prologue."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return "<svg " + text.getvalue().partition("<svg ")[2]
