"""Figures of runs: accuracy and forgetting task after task, mAP or accuracy round after round.

matplotlib is imported inside the functions: it takes a second, and most commands draw nothing.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from fedagem.learning.metrics import Matrix, average_accuracy, average_forgetting
from fedagem.reports.measured import Measured
from fedagem.reports.summary import Runs, by_plan, of_vehicles
from fedagem.runs.metrics_log import Curve, shown_name
from fedagem.runs.results import collect_results
from fedagem.runs.uncertainty import drawn_mean, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.2, 3.6)
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
    figure = Figure(figsize=(PANEL[0] * max(len(lines), 1), PANEL[1]), layout="constrained")
    panels = figure.subplots(1, max(len(lines), 1), squeeze=False)[0]
    for axes, (metric, methods) in zip(panels, lines.items(), strict=False):
        _draw_panel(axes, metric, methods, shift)
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
    for metric, methods in lines.items():
        figure = Figure(figsize=PANEL, layout="constrained")
        axes = figure.subplots()
        _draw_panel(axes, metric, methods, shift)
        axes.legend(fontsize="small")
        panels.append(svg_of(figure))
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


@dataclass
class _Line:
    """The curves of a method's runs, and their draws if all have them."""

    curves: list[Curve] = field(default_factory=list)
    draws: list[dict[int, tuple[float, ...]]] = field(default_factory=list)

    @property
    def rounds(self) -> list[int]:
        return sorted(set.intersection(*(set(curve) for curve in self.curves)))

    def middle(self) -> list[float]:
        return [mean(curve[number] for curve in self.curves) for number in self.rounds]

    def band(self) -> list[tuple[float, float]]:
        """Where 95 % of other draws of the frames and seeds are; without draws, from the lowest seed to the highest."""
        if len(self.draws) == len(self.curves):
            return [interval(drawn_mean([np.asarray(draws[number]) for draws in self.draws])) for number in self.rounds]
        values = [[curve[number] for curve in self.curves] for number in self.rounds]
        return [(min(row), max(row)) for row in values]


def _lines(directories: Sequence[Path]) -> tuple[dict[str, dict[str, _Line]], int | None]:
    """The curves of all runs by metric and by method, and the round of the shift."""
    lines: dict[str, dict[str, _Line]] = {}
    shift = None
    for run in map(Measured.of, directories):
        shift = run.plan.workload.shift_round
        for metric, curve in run.curves.items():
            line = lines.setdefault(metric, {}).setdefault(run.plan.label, _Line())
            line.curves.append(curve)
            if metric in run.draws:
                line.draws.append(run.draws[metric])
    return lines, shift


def _draw_panel(axes: Axes, metric: str, lines: dict[str, _Line], shift: int | None) -> None:
    """A line per method with its band, and the shift if an evaluation followed it."""
    for label, line in lines.items():
        (drawn,) = axes.plot(line.rounds, line.middle(), label=label, linewidth=1.8, marker="o", markersize=3)
        low, high = zip(*line.band(), strict=True)
        axes.fill_between(line.rounds, low, high, color=drawn.get_color(), alpha=0.15, linewidth=0)
    if shift is not None and any(max(line.rounds) > shift for line in lines.values()):
        mark_shift(axes, shift)
    axes.set(title=shown_name(metric), ylim=(0, None))
    by_round(axes)


def mark_shift(axes: Axes, shift: float) -> None:
    """A dashed line at the shift."""
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


def by_round(axes: Axes) -> None:
    """Whole rounds along the axis, and a grid."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("rounds")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def svg_of(figure: Figure) -> str:
    """The figure as an SVG element without the XML prologue."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return "<svg " + text.getvalue().partition("<svg ")[2]
