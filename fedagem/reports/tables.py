"""Tables of runs: what stands in their cells, and how the terminal shows them."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

from rich.table import Table

from fedagem.reports.summary import Runs, Summary, by_plan, lost, of_vehicles, shift_note, summarise_runs
from fedagem.runs.metrics_log import MAP_50, SMOOTHED, shown_name
from fedagem.runs.results import Results

_CONTINUAL = {"accuracy": "Acc", "forgetting": "Fgt", "bwt": "BWT", "fwt": "FWT"}
"""Headings of the paper's metrics, by their names in the results."""
_MOMENTS = {"before": "before", "after": "at the end", "end": ""}


@dataclass(frozen=True)
class Grid:
    """The cells of a table, for the terminal and for the page."""

    title: str
    headings: list[tuple[str, str]]
    """What each column shows, and at which moment if there are several."""
    rows: list[list[str]]
    note: str = ""
    """What a reader must know to read the numbers."""

    def grouped_headings(self) -> list[tuple[str, list[str]]]:
        """What neighbouring columns show, with the moments of each; a column without moments has an empty one."""
        groups = itertools.groupby(self.headings, key=lambda heading: heading[0])
        return [(what, [moment for _, moment in columns]) for what, columns in groups]


def mean_and_std(values: Iterable[float], digits: int) -> str:
    """Mean and sample deviation; the mean alone for one value, a dash for none."""
    known = list(values)
    if not known:
        return "-"
    return f"{mean(known):.{digits}f}" + (f" ± {stdev(known):.{digits}f}" if len(known) > 1 else "")


def overview(summary: Summary) -> Grid:
    """The table that answers the question: by method, mean and deviation over the seeds."""
    if summary.tasks:
        return _overview_of_tasks(summary)
    names = sorted({name for curves in summary.methods.values() for name in curves})
    moments = ("before", "after") if summary.shift_reached else ("end",)
    columns = [(name, moment) for name in names for moment in moments]
    notes = [_over_seeds(summary), shift_note(summary)]
    if any(name.startswith(MAP_50) for name in names):
        spans = " before the shift, and of the run" if summary.shift_reached else ""
        notes.append(f"mAP is the mean of the last {SMOOTHED} evaluations{spans}")
    return Grid(
        "Before and after the shift" if summary.shift_reached else "At the end",
        [("method", ""), *((shown_name(name), _MOMENTS[moment]) for name, moment in columns)],
        [
            [label, *(mean_and_std(curves.get(name, {}).get(moment, []), digits=3) for name, moment in columns)]
            for label, curves in summary.methods.items()
        ],
        "; ".join(note for note in notes if note),
    )


def forgetting_table(summary: Summary) -> Grid | None:
    """How much of each domain's score was lost after the shift; None if no evaluation followed a shift."""
    methods = summary.methods
    names = sorted({name for curves in methods.values() for name, levels in curves.items() if "before" in levels})
    if not names:
        return None
    return Grid(
        "What was forgotten",
        [("method", ""), *((shown_name(name), "") for name in names)],
        [
            [label, *(mean_and_std(lost(curves.get(name, {})), digits=3) for name in names)]
            for label, curves in methods.items()
        ],
        "the level before the shift less the level at the end: positive is a loss, negative a gain",
    )


def comparison_table(summary: Summary) -> Table:
    """The overview for the terminal."""
    shown = overview(summary)
    table = Table(title=shown.title, caption=shown.note, pad_edge=False)
    for what, moment in shown.headings:
        side: Literal["left", "right"] = "left" if what in {"method", "scenario"} else "right"
        table.add_column(f"{what} {moment}".strip(), justify=side, overflow="fold")
    for row in shown.rows:
        table.add_row(*row)
    return table


def tables_of(runs: Runs) -> list[Table]:
    """One table for all runs over tasks, and one for each driving plan."""
    driving = of_vehicles(runs)
    others = [results for directory, results in runs.items() if directory not in driving]
    tables = [results_table(others)] if others else []
    return tables + [_driving_table(name, part) for name, part in by_plan(driving).items()]


def results_table(all_results: Sequence[Results]) -> Table:
    """One line per plan, method and scenario: mean and deviation over the seeds, in per cent."""
    table = Table(title=None)
    for heading in ("plan", "method", "scenario", "seeds"):
        table.add_column(heading, overflow="fold")
    for heading in (*_CONTINUAL.values(), "rounds", "minutes"):
        table.add_column(heading, justify="right", overflow="fold")
    groups: dict[tuple[str, str, str], list[Results]] = defaultdict(list)
    for results in all_results:
        for scenario in results.accuracy or ["-"]:
            groups[results.plan, results.label, scenario].append(results)
    for (plan, label, scenario), group in groups.items():
        cells = [mean_and_std(_percentages(group, metric, scenario), digits=1) for metric in _CONTINUAL]
        seeds = ", ".join(str(seed) for seed in sorted(results.seed for results in group))
        table.add_row(plan, label, scenario, seeds, *cells, _rounds(group), f"{_minutes(group):.1f}")
    return table


def _driving_table(name: str, runs: Runs) -> Table:
    table, results = comparison_table(summarise_runs(list(runs))), list(runs.values())
    table.title = f"{name}: {str(table.title).lower()}"
    table.caption = f"{table.caption}; {_rounds(results)} rounds in {_minutes(results):.1f} minutes"
    return table


def _overview_of_tasks(summary: Summary) -> Grid:
    rows = [
        [label, shown_name(scenario), *(mean_and_std((100 * v for v in metrics[m]), digits=1) for m in _CONTINUAL)]
        for label, scenarios in summary.tasks.items()
        for scenario, metrics in scenarios.items()
    ]
    note = f"in per cent, {_over_seeds(summary)}; Fgt is better when lower, the others when higher"
    headings = [(name, "") for name in ("method", "scenario", *_CONTINUAL.values())]
    return Grid("Task after task", headings, rows, note)


def _over_seeds(summary: Summary) -> str:
    seeds = ", ".join(map(str, summary.seeds))
    return f"mean ± standard deviation over the seeds {seeds}" if len(summary.seeds) > 1 else f"seed {seeds}"


def _percentages(group: Sequence[Results], metric: str, scenario: str) -> list[float]:
    values = (getattr(results, metric).get(scenario) for results in group)
    return [100 * value for value in values if value is not None]


def _rounds(group: Sequence[Results]) -> str:
    return "/".join(sorted({str(results.rounds) for results in group}))


def _minutes(group: Sequence[Results]) -> float:
    return mean(results.seconds for results in group) / 60
