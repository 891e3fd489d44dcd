"""Tables, pictures and pages of any runs: vehicles by domain, before and after their shift, the others by task."""

from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from rich.table import Table

from fedagem.reports.comparison import comparison_table, draw_comparison, summarise_comparison
from fedagem.reports.page import write_page
from fedagem.reports.tables import draw_plots, results_table

Results = dict[Path, dict[str, Any]]
"""What results.json holds, by the folder of the run."""


def tables_of(runs: Results) -> list[Table]:
    """One table for all runs over tasks, and one for each driving plan."""
    others = [results for results in runs.values() if not _has_map(results)]
    tables = [results_table(others)] if others else []
    return tables + [_driving_table(name, part) for name, part in _by_plan(_driving(runs)).items()]


def pictures_of(runs: Results, out: Path) -> list[Path]:
    """Accuracy and forgetting task after task, or mAP round after round; a plan's name is in a picture's if need be."""
    pictures = draw_plots(list(runs), out)
    plans = _by_plan(_driving(runs))
    for name, part in plans.items():
        pictures += draw_comparison(list(part), out, f"{name}-map" if len(plans) > 1 else "map")
    return pictures


def pages_of(runs: Results, out: Path) -> list[Path]:
    """A page for each plan."""
    plans = _by_plan(runs)
    return [
        write_page(list(part), out / (f"{name}-report.html" if len(plans) > 1 else "report.html"))
        for name, part in plans.items()
    ]


def _driving_table(name: str, runs: Results) -> Table:
    table = comparison_table(summarise_comparison(list(runs)))
    rounds = "/".join(sorted({str(results["rounds"]) for results in runs.values()}))
    minutes = mean(results["seconds"] for results in runs.values()) / 60
    table.title = f"{name}: {str(table.title).lower()}"
    table.caption = f"{table.caption}; {rounds} rounds in {minutes:.1f} minutes"
    return table


def _by_plan(runs: Results) -> dict[str, Results]:
    plans: dict[str, Results] = defaultdict(dict)
    for directory, results in runs.items():
        plans[results["plan"]][directory] = results
    return plans


def _driving(runs: Results) -> Results:
    return {directory: results for directory, results in runs.items() if _has_map(results)}


def _has_map(results: dict[str, Any]) -> bool:
    return "map_50" in results
