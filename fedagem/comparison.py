"""Curves by round over methods and seeds, before and after a domain shift."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.table import Table

from fedagem.drive import shift_round
from fedagem.metric_names import shown_name
from fedagem.report import label_of_plan
from fedagem.results import read_metrics
from fedagem.run_directory import plan_of_run
from fedagem.spread import spread

Curve = dict[int, float]
"""A value by the number of rounds the model was trained for."""
SMOOTHED = 3
"""Evaluations of mAP that a table averages: a detector in training jumps from round to round."""
SMOOTHING = f"mAP is the mean of the last {SMOOTHED} evaluations before the shift, and of the run"


def curves_of(directory: Path) -> dict[str, Curve]:
    """What a run's evaluations measured: mAP by domain, or the mean accuracy over all tasks."""
    curves: dict[str, Curve] = defaultdict(dict)
    for row in read_metrics(directory):
        trained = 0 if row["stage"] == "baseline" else row["round"] + 1
        if row["metric"].startswith("map_50/"):
            curves[row["metric"]][trained] = row["value"]
        elif row["metric"].startswith("accuracy/"):
            curves[row["metric"]][trained] = mean(row["value"])
    return dict(curves)


def summarise_comparison(directories: Sequence[Path]) -> dict[str, Any]:
    """Each curve's level at the shift and at the end, by method, with every seed's numbers."""
    shift = None
    methods: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    seeds = set()
    for directory in directories:
        plan, _ = plan_of_run(directory)
        shift = shift_round(plan)
        seeds.add(plan["data_loader"]["settings"]["seed"])
        for name, curve in curves_of(directory).items():
            values = methods[label_of_plan(plan)][name]
            rounds = sorted(curve)
            before = [number for number in rounds if shift is not None and number <= shift]
            last = SMOOTHED if name.startswith("map_50/") else 1
            if before:
                values["before"].append(mean(curve[number] for number in before[-last:]))
            after = rounds[len(before) :] or rounds
            values["after"].append(mean(curve[number] for number in after[-last:]))
    return {
        "shift_round": shift,
        "seeds": sorted(seeds),
        "methods": {label: {name: dict(part) for name, part in curves.items()} for label, curves in methods.items()},
    }


def comparison_table(summary: dict[str, Any]) -> Table:
    """Before and after the shift, by domain; mean and spread over seeds."""
    names = sorted({name for curves in summary["methods"].values() for name in curves})
    seeds, shift = summary["seeds"], summary["shift_round"]
    caption = f"mean ± spread over seeds {seeds}; the shift is at round {shift}; {SMOOTHING}"
    table = Table(caption=caption)
    table.add_column("method")
    for name in names:
        table.add_column(f"{shown_name(name)} before", justify="right")
        table.add_column("after", justify="right")
    for label, curves in summary["methods"].items():
        table.add_row(label, *shift_cells(curves, names))
    return table


def shift_cells(curves: dict[str, dict[str, list[float]]], names: Sequence[str]) -> list[str]:
    """One method's cells of a table: for each curve its level at the shift and at the end."""
    return [spread(curves.get(name, {}).get(moment, []), digits=3) for name in names for moment in ("before", "after")]


def comparison_figure(directories: Sequence[Path]) -> Figure:
    """The paper's figure: one panel per domain, a line per method, a band for the seeds, the shift marked."""
    lines: dict[str, dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    shift = None
    for directory in directories:
        plan, _ = plan_of_run(directory)
        shift = shift_round(plan)
        for name, curve in curves_of(directory).items():
            lines[name][label_of_plan(plan)].append(curve)
    figure = Figure(figsize=(4.2 * max(len(lines), 1), 3.6), layout="constrained")
    panels = figure.subplots(1, max(len(lines), 1), squeeze=False)[0]
    for axes, name in zip(panels, sorted(lines), strict=False):
        for label, curves in lines[name].items():
            rounds = sorted(set.intersection(*(set(curve) for curve in curves)))
            middle = [mean(curve[number] for curve in curves) for number in rounds]
            (line,) = axes.plot(rounds, middle, label=label, linewidth=1.8, marker="o", markersize=3)
            low = [min(curve[number] for curve in curves) for number in rounds]
            high = [max(curve[number] for curve in curves) for number in rounds]
            axes.fill_between(rounds, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        if shift is not None:
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
        axes.set(title=shown_name(name), xlabel="rounds", ylim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
    if lines:
        panels[0].legend(fontsize="small")
    return figure


def draw_comparison(directories: Sequence[Path], out: Path) -> list[Path]:
    """The figure as PNG and SVG."""
    figure = comparison_figure(directories)
    paths = [out / "comparison.png", out / "comparison.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
