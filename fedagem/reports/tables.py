"""Tables of runs: what stands in their cells, and how the terminal shows them."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Literal

from rich.markup import escape
from rich.table import Table

from fedagem.reports.summary import Runs, Summary, by_plan, of_vehicles, shift_note, summarise_runs
from fedagem.runs.metrics_log import LOST, SMOOTHED, shown_name
from fedagem.runs.results import Results

_CONTINUAL = {"accuracy": "Acc", "forgetting": "Fgt", "bwt": "BWT", "fwt": "FWT"}
"""Headings of the paper's metrics, by their names in the results."""
_MOMENTS = {"before": "before", "after": "after", LOST: "lost", "end": "at the end"}


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


def overviews(summary: Summary) -> list[Grid]:
    """The tables that answer the question: by method over all tasks, or one for each curve of driving runs."""
    if summary.tasks:
        return [_overview_of_tasks(summary)]
    names = list(dict.fromkeys(name for curves in summary.methods.values() for name in curves))
    grids = [_overview_of_curve(name, summary) for name in names]
    return [replace(grid, note=_note(summary) if grid is grids[-1] else "") for grid in grids]


def comparison_table(summary: Summary) -> Table:
    """The overviews for the terminal, below each other."""
    grids = overviews(summary)
    headings = [f"{what} {moment}".strip() for what, moment in grids[0].headings] if grids else []
    table = Table(caption="; ".join(grid.note for grid in grids if grid.note), pad_edge=False)
    for heading in headings:
        side: Literal["left", "right"] = "left" if heading in {"method", "scenario"} else "right"
        table.add_column(heading, justify=side, overflow="fold")
    if len(grids) == 1:
        table.title = grids[0].title
    for grid in grids:
        if len(grids) > 1:
            table.add_section()
            table.add_row(f"[bold]{escape(grid.title)}[/bold]")
        for row in grid.rows:
            table.add_row(*(escape(text) for text in row))
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
    table.title = f"{name}: {table.title}" if table.title else name
    table.caption = f"{table.caption}; {_rounds(results)} rounds in {_minutes(results):.1f} minutes"
    return table


def _overview_of_curve(name: str, summary: Summary) -> Grid:
    moments = ("before", "after", LOST, "end") if summary.shift_reached else ("end",)
    return Grid(
        shown_name(name),
        [("method", ""), *((_MOMENTS[moment], "") for moment in moments)],
        [
            [label, *(_level(label, name, moment, summary) for moment in moments)]
            for label, curves in summary.methods.items()
            if name in curves
        ],
    )


def _level(label: str, name: str, moment: str, summary: Summary) -> str:
    """Mean and deviation over the seeds, and the interval if there is one."""
    text = mean_and_std(summary.methods[label][name].get(moment, []), digits=3)
    if (between := summary.intervals.get(label, {}).get(name, {}).get(moment)) is not None:
        text += f" [{between[0]:.3f}, {between[1]:.3f}]"
    return text


def _note(summary: Summary) -> str:
    """What a reader must know about the numbers of all curves."""
    notes = [_over_seeds(summary)]
    if summary.intervals:
        also = " and of the seeds" if len(summary.seeds) > 1 else ""
        notes.append(f"in brackets where 95 % of other draws of the frames{also} are")
    notes.append(shift_note(summary))
    if summary.shift_reached:
        notes.append(
            f"before is the mean of the last {SMOOTHED} evaluations before the shift, after that of all evaluations "
            f"after it, lost their difference, at the end the mean of the last {SMOOTHED}"
        )
    if summary.objects:
        notes.append(_objects(summary))
    return "; ".join(note for note in notes if note)


def _objects(summary: Summary) -> str:
    """Which classes a mean is over, and which have too few objects."""
    domains: dict[str, dict[str, int]] = defaultdict(dict)
    for name, count in summary.objects.items():
        domain, _, label = name.partition("/")
        domains[domain][label] = count
    parts = []
    for domain, counts in domains.items():
        enough = [f"{label} ({n})" for label, n in counts.items() if n >= summary.least_objects]
        few = [f"{label} ({n})" for label, n in counts.items() if 0 < n < summary.least_objects]
        left_out = f", without {', '.join(few)}" if few else ""
        parts.append(f"{domain} over {', '.join(enough) or 'no class'}{left_out}")
    least = f"at least {summary.least_objects} objects" if summary.least_objects > 1 else "objects"
    return f"mAP is the mean over classes with {least}: {'; '.join(parts)}"


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
