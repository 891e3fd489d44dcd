"""What methods and seeds have shown, beside each other: before and after a domain shift, or task after task."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.table import Table

from fedagem.plans.drive import shift_round
from fedagem.reports.spread import spread
from fedagem.reports.tables import CONTINUAL_METRICS, label_of_plan
from fedagem.runs.curves import MAP, SMOOTHED, Curve, curves_of, last_evaluation, levels
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metric_names import shown_name
from fedagem.runs.results import collect_results, read_metrics

_PANEL = (4.2, 3.6)
"""Width and height in inches."""
_MOMENTS = {"before": "before", "after": "at the end", "end": ""}


@dataclass(frozen=True)
class Overview:
    """A comparison's main table, as the terminal and the page show it."""

    title: str
    headings: list[tuple[str, str]]
    """What each column shows, and at which moment where there are several."""
    rows: list[list[str]]
    note: str


def summarise_comparison(directories: Sequence[Path]) -> dict[str, Any]:
    """By method, with every seed's numbers: each curve's level before the shift and at the end, and what tasks left.

    Where a run has no evaluation after the shift, nothing is before or after: there is only an end.
    """
    plans = [plan_of_run(directory)[0] for directory in directories]
    runs = [curves_of(read_metrics(directory)) for directory in directories]
    shift, last = shift_round(plans[-1]), last_evaluation(runs)
    reached = shift is not None and last is not None and last > shift
    methods: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for plan, curves in zip(plans, runs, strict=True):
        for name, curve in curves.items():
            for moment, level in levels(name, curve, shift if reached else None).items():
                methods[label_of_plan(plan)][name][moment].append(level)
    return {
        "shift_round": shift,
        "shift_reached": reached,
        "last_evaluation": last,
        "seeds": sorted({plan["data_loader"]["settings"]["seed"] for plan in plans}),
        "methods": {label: {name: dict(part) for name, part in curves.items()} for label, curves in methods.items()},
        "tasks": _task_metrics(directories, plans),
    }


def _task_metrics(directories: Sequence[Path], plans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Acc, Fgt, BWT and FWT by method and scenario, every seed's; nothing for runs without tasks."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for directory, plan in zip(directories, plans, strict=True):
        results = collect_results(directory)
        for kind in results.get("accuracy_matrix", {}):
            metrics = found.setdefault(label_of_plan(plan), {}).setdefault(kind, {m: [] for m in CONTINUAL_METRICS})
            for metric, values in metrics.items():
                if (value := results.get(metric, {}).get(kind)) is not None:
                    values.append(value)
    return found


def overview(summary: dict[str, Any]) -> Overview:
    """The table that answers the question: by method, mean and spread over the seeds."""
    if summary["tasks"]:
        return _overview_of_tasks(summary)
    names = sorted({name for curves in summary["methods"].values() for name in curves})
    moments = ("before", "after") if summary["shift_reached"] else ("end",)
    notes = [_over_seeds(summary), shift_note(summary)]
    if any(name.startswith(MAP) for name in names):
        spans = " before the shift, and of the run" if summary["shift_reached"] else ""
        notes.append(f"mAP is the mean of the last {SMOOTHED} evaluations{spans}")
    return Overview(
        "Before and after the shift" if summary["shift_reached"] else "At the end",
        [("method", ""), *((shown_name(name), _MOMENTS[moment]) for name in names for moment in moments)],
        [
            [label, *(spread(curves.get(name, {}).get(moment, []), digits=3) for name in names for moment in moments)]
            for label, curves in summary["methods"].items()
        ],
        "; ".join(note for note in notes if note),
    )


def _overview_of_tasks(summary: dict[str, Any]) -> Overview:
    rows = [
        [label, shown_name(kind), *(spread((100 * v for v in metrics[m]), digits=1) for m in CONTINUAL_METRICS)]
        for label, kinds in summary["tasks"].items()
        for kind, metrics in kinds.items()
    ]
    note = f"in per cent, {_over_seeds(summary)}; Fgt is better when lower, the others when higher"
    headings = [(name, "") for name in ("method", "scenario", *CONTINUAL_METRICS.values())]
    return Overview("Task after task", headings, rows, note)


def shift_note(summary: dict[str, Any]) -> str:
    """Where the shift is, or that no evaluation has come after it; nothing for plans without one."""
    shift, last = summary["shift_round"], summary["last_evaluation"]
    if shift is None:
        return ""
    if summary["shift_reached"]:
        return f"the shift is at round {shift}"
    until = "nothing was evaluated" if last is None else f"the last evaluation is after {last} rounds"
    return f"the shift at round {shift} was not reached: {until}"


def _over_seeds(summary: dict[str, Any]) -> str:
    seeds = ", ".join(map(str, summary["seeds"]))
    return f"mean ± standard deviation over the seeds {seeds}" if len(summary["seeds"]) > 1 else f"seed {seeds}"


def comparison_table(summary: dict[str, Any]) -> Table:
    """The overview for the terminal."""
    shown = overview(summary)
    table = Table(title=shown.title, caption=shown.note, pad_edge=False)
    for what, moment in shown.headings:
        side: Literal["left", "right"] = "left" if what in {"method", "scenario"} else "right"
        table.add_column(f"{what} {moment}".strip(), justify=side, overflow="fold")
    for row in shown.rows:
        table.add_row(*row)
    return table


def comparison_figure(directories: Sequence[Path]) -> Figure:
    """The paper's figure: one panel per domain, a line per method, a band for the seeds, the shift marked."""
    lines, shift = _lines(directories)
    figure = Figure(figsize=(_PANEL[0] * max(len(lines), 1), _PANEL[1]), layout="constrained")
    panels = figure.subplots(1, max(len(lines), 1), squeeze=False)[0]
    for axes, name in zip(panels, sorted(lines), strict=False):
        _draw_panel(axes, name, lines[name], shift)
    if lines:
        panels[0].legend(fontsize="small")
    return figure


def comparison_panels(directories: Sequence[Path]) -> list[Figure]:
    """The same panels one by one, for where they may have to stand below each other."""
    lines, shift = _lines(directories)
    figures = []
    for name in sorted(lines):
        figures.append(Figure(figsize=_PANEL, layout="constrained"))
        axes = figures[-1].subplots()
        _draw_panel(axes, name, lines[name], shift)
        axes.legend(fontsize="small")
    return figures


def _lines(directories: Sequence[Path]) -> tuple[dict[str, dict[str, list[Curve]]], int | None]:
    """The curves of all runs by what they show and by method, and the round of the shift."""
    lines: dict[str, dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    shift = None
    for directory in directories:
        plan, _ = plan_of_run(directory)
        shift = shift_round(plan)
        for name, curve in curves_of(read_metrics(directory)).items():
            lines[name][label_of_plan(plan)].append(curve)
    return lines, shift


def _draw_panel(axes: Axes, name: str, lines: dict[str, list[Curve]], shift: int | None) -> None:
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
    axes.set(title=shown_name(name), xlabel="rounds", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def draw_comparison(directories: Sequence[Path], out: Path, name: str = "comparison") -> list[Path]:
    """The figure as PNG and SVG."""
    figure = comparison_figure(directories)
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
