"""What the numbers of some runs are: by method, with every seed, before and after a domain shift or task after task."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import curves_of, last_evaluation, levels, read_metrics
from fedagem.runs.results import CONTINUAL_METRICS, Results, collect_results

Runs = dict[Path, Results]
"""Results by the folder of the run."""
Levels = dict[str, list[float]]
"""Every seed's level of a curve, by moment."""


@dataclass(frozen=True)
class Summary:
    """What runs of one plan have shown; the content of comparison.json."""

    shift_round: int | None
    shift_reached: bool
    """Whether every run has an evaluation after the shift; if not, nothing is before or after, there is only an end."""
    last_evaluation: int | None
    """After how many rounds; None if nothing was evaluated."""
    seeds: list[int]
    methods: dict[str, dict[str, Levels]]
    """The levels of every curve, by method and by the curve's metric."""
    tasks: dict[str, dict[str, dict[str, list[float]]]]
    """Every seed's accuracy, forgetting and transfer, by method and scenario; empty for runs without tasks."""


def summarise_runs(directories: Sequence[Path]) -> Summary:
    """Collect the numbers of all runs, which follow the same plan with other methods and seeds."""
    plans = [plan_of_run(directory) for directory in directories]
    curves_of_runs = [curves_of(read_metrics(directory)) for directory in directories]
    shift, last = plans[-1].workload.shift_round, last_evaluation(curves_of_runs)
    reached = shift is not None and last is not None and last > shift
    methods: dict[str, dict[str, Levels]] = {}
    for plan, curves in zip(plans, curves_of_runs, strict=True):
        for name, curve in curves.items():
            found = methods.setdefault(plan.label, {}).setdefault(name, {})
            for moment, level in levels(name, curve, shift if reached else None).items():
                found.setdefault(moment, []).append(level)
    return Summary(
        shift_round=shift,
        shift_reached=reached,
        last_evaluation=last,
        seeds=sorted({plan.seed for plan in plans}),
        methods=methods,
        tasks=_task_metrics([collect_results(directory) for directory in directories]),
    )


def lost(levels: Levels) -> list[float]:
    """What every seed had before the shift and has no more at the end."""
    return [before - after for before, after in zip(levels.get("before", []), levels.get("after", []), strict=False)]


def by_plan(runs: Runs) -> dict[str, Runs]:
    """The runs of each plan."""
    plans: dict[str, Runs] = defaultdict(dict)
    for directory, results in runs.items():
        plans[results.plan][directory] = results
    return plans


def of_vehicles(runs: Runs) -> Runs:
    """The runs that were scored by mAP."""
    return {directory: results for directory, results in runs.items() if results.map_50}


def shift_note(summary: Summary) -> str:
    """When the shift comes, or that no evaluation has followed it; empty for plans without a shift."""
    shift, last = summary.shift_round, summary.last_evaluation
    if shift is None:
        return ""
    if summary.shift_reached:
        return f"the shift is at round {shift}"
    until = "nothing was evaluated" if last is None else f"the last evaluation is after {last} rounds"
    return f"the shift at round {shift} was not reached: {until}"


def _task_metrics(runs: Sequence[Results]) -> dict[str, dict[str, dict[str, list[float]]]]:
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for results in runs:
        for scenario in results.accuracy_matrix:
            empty: dict[str, list[float]] = {metric: [] for metric in CONTINUAL_METRICS}
            metrics = found.setdefault(results.label, {}).setdefault(scenario, empty)
            for metric, values in metrics.items():
                if (value := getattr(results, metric).get(scenario)) is not None:
                    values.append(value)
    return found
