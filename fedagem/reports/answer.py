"""The head of a page: the question that its runs were made for, and one sentence of answer for each method."""

from collections.abc import Sequence
from statistics import mean, stdev

from fedagem.plans.workload import DrivingWorkload, Workload
from fedagem.reports.summary import Levels, Summary, lost, shift_note
from fedagem.runs.metrics_log import ALL_DOMAINS, MAP_50, shown_name


def question(workload: Workload, summary: Summary) -> str:
    """What the runs were made to find out."""
    if not isinstance(workload, DrivingWorkload):
        return "Task after task: does the federation forget the first ones?"
    if summary.shift_round is None:
        return "What has the federation learned to see?"
    first, later = workload.domains_of_shift
    if first is None:
        return "What the vehicles see changes: does the federation forget what it saw first?"
    if later is None:
        return f"Vehicles leave {first}: does the federation forget it?"
    return f"Vehicles move from {first} to {later}: does the federation forget {first}?"


def answer(workload: Workload, summary: Summary) -> list[str]:
    """One sentence per method: on its earlier tasks, or on the domain that the vehicles begin in."""
    if summary.tasks:
        return [
            _answer_of_tasks(label, scenario, metrics)
            for label, scenarios in summary.tasks.items()
            for scenario, metrics in scenarios.items()
        ]
    if summary.shift_round is not None and not summary.shift_reached:
        note = shift_note(summary)
        return [f"{note[0].upper()}{note[1:]}. So there is nothing to say yet about what was forgotten."]
    first = workload.domains_of_shift[0] if isinstance(workload, DrivingWorkload) else None
    sentences = [
        _answer_of_domain(label, name, curves[name])
        for label, curves in summary.methods.items()
        if (name := _curve_of(first, curves)) is not None
    ]
    if sentences and summary.shift_reached and len(summary.seeds) == 1:
        sentences.append("This is a single seed: only more seeds can show how much of it is chance.")
    return sentences or ["Nothing was evaluated."]


def _curve_of(domain: str | None, curves: dict[str, Levels]) -> str | None:
    """The domain's curve, or the first that is of one domain."""
    if f"{MAP_50}{domain}" in curves:
        return f"{MAP_50}{domain}"
    return next((name for name in curves if name != ALL_DOMAINS), None)


def _answer_of_domain(label: str, name: str, levels: Levels) -> str:
    losses = lost(levels)
    if not losses:
        end = mean(levels.get("end") or levels.get("after") or levels["before"])
        return f"{label}: {shown_name(name)} {end:.3f} at the end."
    verdict = f"{_verdict(losses)}, " if len(losses) > 1 else ""
    change = f"{abs(mean(losses)):.3f} {'below' if mean(losses) > 0 else 'above'} its level before the shift"
    return f"{label}: {verdict}{shown_name(name)} ends {change}, at {mean(levels['after']):.3f}."


def _answer_of_tasks(label: str, scenario: str, metrics: dict[str, list[float]]) -> str:
    what = f"{label} ({shown_name(scenario)})"
    if not metrics["accuracy"]:
        return f"{what}: no task was learned to its end."
    accuracy = f"{100 * mean(metrics['accuracy']):.1f} % over all tasks learned"
    if not metrics["forgetting"]:
        return f"{what}: {accuracy}; with a single task there is nothing to forget."
    points = 100 * mean(metrics["forgetting"])
    change = f"{abs(points):.1f} points {'below' if points > 0 else 'above'} their previous best"
    return f"{what}: {_verdict(metrics['forgetting'])}, earlier tasks end {change}; {accuracy}."


def _verdict(losses: Sequence[float]) -> str:
    """Whether it was forgotten: a loss counts if it is larger than the deviation of the seeds."""
    deviation = stdev(losses) if len(losses) > 1 else 0.0
    return "no" if mean(losses) <= 0 else "yes" if mean(losses) > deviation else "not clearly"
