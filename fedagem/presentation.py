"""Tables and pictures of any set of runs: vehicles by domain, before and after their shift, the others by task."""

from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from rich.table import Table

from fedagem.comparison import comparison_table, draw_comparison, summarise_comparison
from fedagem.report import draw_plots, results_table

Results = dict[Path, dict[str, Any]]
"""What results.json holds, by the folder of the run."""


def tables_of(runs: Results) -> list[Table]:
    """One table for all runs over tasks, and one for each driving plan."""
    driving = _driving_plans(runs)
    others = [results for results in runs.values() if not _has_map(results)]
    tables = [results_table(others)] if others else []
    return tables + [_driving_table(name, directories, runs) for name, directories in driving.items()]


def pictures_of(runs: Results, out: Path) -> list[Path]:
    """Accuracy and forgetting task after task, or mAP round after round; a plan's name is in a picture's if need be."""
    pictures = draw_plots(list(runs), out)
    driving = _driving_plans(runs)
    for name, directories in driving.items():
        pictures += draw_comparison(directories, out, f"{name}-map" if len(driving) > 1 else "map")
    return pictures


def _driving_table(name: str, directories: list[Path], runs: Results) -> Table:
    table = comparison_table(summarise_comparison(directories))
    rounds = "/".join(sorted({str(runs[directory]["rounds"]) for directory in directories}))
    minutes = mean(runs[directory]["seconds"] for directory in directories) / 60
    table.title = f"{name}: {str(table.title).lower()}"
    table.caption = f"{table.caption}; {rounds} rounds in {minutes:.1f} minutes"
    return table


def _driving_plans(runs: Results) -> dict[str, list[Path]]:
    plans: dict[str, list[Path]] = defaultdict(list)
    for directory, results in runs.items():
        if _has_map(results):
            plans[results["plan"]].append(directory)
    return plans


def _has_map(results: dict[str, Any]) -> bool:
    return "map_50" in results
