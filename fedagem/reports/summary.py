"""What the numbers of some runs are: by method, with every seed, before and after a domain shift or task after task."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from fedagem.plans.driving import DrivingSettings
from fedagem.reports.costs import MethodCosts
from fedagem.reports.measured import Measured
from fedagem.runs.metrics_log import LOST, OBJECTS, last_evaluation, levels
from fedagem.runs.results import CONTINUAL_METRICS, Results, collect_results
from fedagem.runs.uncertainty import Drawn, Interval, drawn_levels, drawn_mean, interval

Runs = dict[Path, Results]
"""Results by the folder of the run."""
Levels = dict[str, list[float]]
"""Every seed's level of a curve, by moment."""
BASELINE = "fedavg"
"""The method without memory, which the others are compared with."""


@dataclass(frozen=True)
class Difference:
    """How far a method is above the baseline."""

    value: float
    interval: Interval | None


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
    intervals: dict[str, dict[str, dict[str, Interval]]] = field(default_factory=dict)
    """Where 95 % of other draws of the frames and of the seeds are: by method, metric and moment."""
    differences: dict[str, dict[str, dict[str, Difference]]] = field(default_factory=dict)
    """How far each method is above the baseline at the end, and how much less it lost: by method, metric and moment."""
    objects: dict[str, int] = field(default_factory=dict)
    """How many objects there were to find, by domain and class."""
    least_objects: int = 1
    """How many a class needs to be part of the mean."""
    costs: dict[str, MethodCosts] = field(default_factory=dict)
    """What each method costs a client in a round, and what it keeps."""


def summarise_runs(directories: Sequence[Path]) -> Summary:
    """Collect the numbers of all runs, which follow the same plan with other methods and seeds."""
    given = [Measured.of(directory) for directory in directories]
    runs = sorted(given, key=lambda run: run.plan.seed)
    shift, last = runs[-1].plan.workload.shift_round, last_evaluation([run.curves for run in runs])
    reached = shift is not None and last is not None and last > shift
    divided = shift if reached else None
    methods: dict[str, dict[str, Levels]] = {run.plan.label: {} for run in given}
    drawn: dict[tuple[str, str, str], list[Drawn]] = defaultdict(list)
    for run in runs:
        label = run.plan.label
        for name, curve in run.curves.items():
            found = methods[label].setdefault(name, {})
            for moment, level in levels(name, curve, divided).items():
                found.setdefault(moment, []).append(level)
        for name, draws in run.draws.items():
            for moment, values in drawn_levels(name, draws, divided).items():
                drawn[label, name, moment].append(values)
    means = {key: drawn_mean(values) for key, values in drawn.items()}
    intervals: dict[str, dict[str, dict[str, Interval]]] = {}
    for (label, name, moment), values in means.items():
        intervals.setdefault(label, {}).setdefault(name, {})[moment] = interval(values)
    data = runs[-1].plan.data
    results: dict[str, list[Results]] = {label: [] for label in methods}
    for one_run in (collect_results(directory) for directory in directories):
        results[one_run.label].append(one_run)
    return Summary(
        shift_round=shift,
        shift_reached=reached,
        last_evaluation=last,
        seeds=sorted({run.plan.seed for run in runs}),
        methods=methods,
        tasks=_task_metrics([one for some in results.values() for one in some]),
        intervals=intervals,
        differences=_differences(methods, means),
        objects={row.part: int(row.value) for row in runs[-1].rows if row.metric.startswith(OBJECTS)},
        least_objects=data.evaluation.least_objects if isinstance(data, DrivingSettings) else 1,
        costs={label: MethodCosts.of(some) for label, some in results.items()},
    )


def _differences(
    methods: dict[str, dict[str, Levels]], drawn: dict[tuple[str, str, str], Drawn]
) -> dict[str, dict[str, dict[str, Difference]]]:
    """Of the methods with as many runs as the baseline; a smaller loss is a positive difference."""
    found: dict[str, dict[str, dict[str, Difference]]] = {}
    for label, curves in methods.items():
        for name, levels_of in curves.items():
            for moment, sign in (("end", 1), (LOST, -1)):
                own, others = levels_of.get(moment, []), methods.get(BASELINE, {}).get(name, {}).get(moment, [])
                if label == BASELINE or not own or len(own) != len(others):
                    continue
                both = [drawn.get((method, name, moment)) for method in (label, BASELINE)]
                between = None if both[0] is None or both[1] is None else interval(sign * (both[0] - both[1]))
                difference = Difference(sign * (mean(own) - mean(others)), between)
                found.setdefault(label, {}).setdefault(name, {})[moment] = difference
    return found


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
