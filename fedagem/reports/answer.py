"""The head of a page: the question that its runs were made for, and one sentence of answer for each method."""

from collections.abc import Sequence
from statistics import mean, stdev

from fedagem.plans.workload import DrivingWorkload, Workload
from fedagem.reports.summary import BASELINE, Levels, Summary, shift_note
from fedagem.runs.metrics_log import LOST, MAP_50, shown_name
from fedagem.runs.uncertainty import Interval

KEPT = 0.97
"""A method that keeps this share of its level, and may have lost nothing, counts as one that does not forget."""


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
    """Sentences, the first of which answers: on earlier tasks, or on the domain that the vehicles begin in."""
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
    name = _curve_of(first, summary)
    if name is None:
        return ["Nothing was evaluated."]
    if not summary.shift_reached:
        return [
            f"{label}: {shown_name(name)} {mean(curves[name]['end']):.3f} at the end."
            for label, curves in summary.methods.items()
            if name in curves
        ]
    sentences = [_answer_of_shift(name, summary), *_comparison(name, summary)]
    if len(summary.seeds) == 1:
        sentences.append("This is a single seed of training: only more seeds can show how much of it is chance.")
    return sentences


def headline(workload: Workload, summary: Summary) -> str:
    """The first sentence of the answer, and the comparison with the baseline if there is one."""
    return " ".join(answer(workload, summary)[:2])


def over_drives(workload: Workload, summaries: Sequence[Summary]) -> str | None:
    """What runs on several drives say together, with standard errors over all of them; None if nothing shifted.

    What a shift does depends on the drive, so an effect counts if it is larger than the spread of drives and seeds.
    """
    first = workload.domains_of_shift[0] if isinstance(workload, DrivingWorkload) else None
    name = _curve_of(first, summaries[0])
    if name is None or not all(summary.shift_reached for summary in summaries):
        return None
    runs = {label: _of_all_runs(label, name, summaries) for label in summaries[0].methods}
    parts = []
    for label, levels in runs.items():
        before, lost = mean(levels["before"]), mean(levels[LOST])
        change = f"{'loses' if lost > 0 else 'gains'} {abs(lost):.3f} ± {_error(levels[LOST]):.3f}"
        parts.append(f"{label} {change} of {before:.3f}")
    baseline = runs.get(BASELINE, {}).get("end", [])
    for label, levels in runs.items():
        if label != BASELINE and len(levels["end"]) == len(baseline):
            above = [own - other for own, other in zip(levels["end"], baseline, strict=True)]
            place = f"{abs(mean(above)):.3f} ± {_error(above):.3f} {'above' if mean(above) >= 0 else 'below'}"
            parts.append(f"at the end {label} is {place} {BASELINE}")
    count = sum(len(summary.seeds) for summary in summaries)
    scope = f"{len(summaries)} drives, {count} runs of each method, ± is a standard error"
    return f"{shown_name(name)}, {scope}: {'; '.join(parts)}."


def _of_all_runs(label: str, name: str, summaries: Sequence[Summary]) -> Levels:
    """A method's levels in every run: drive after drive, seed after seed."""
    found = [summary.methods[label][name] for summary in summaries]
    return {moment: [level for levels in found for level in levels[moment]] for moment in ("before", LOST, "end")}


def _error(values: Sequence[float]) -> float:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _curve_of(domain: str | None, summary: Summary) -> str | None:
    """The domain's mAP if it was measured, or else the first that was."""
    names = list(dict.fromkeys(name for curves in summary.methods.values() for name in curves))
    return f"{MAP_50}{domain}" if f"{MAP_50}{domain}" in names else next(iter(names), None)


def _answer_of_shift(name: str, summary: Summary) -> str:
    """Whether each method forgets, in one sentence."""
    parts = []
    for label, curves in summary.methods.items():
        if not (levels := curves.get(name, {})).get(LOST):
            continue
        before, loss = mean(levels["before"]), mean(levels[LOST])
        between = summary.intervals.get(label, {}).get(name, {}).get(LOST)
        change = f"{'loses' if loss > 0 else 'gains'} {_number(abs(loss), between, flipped=loss <= 0)}"
        parts.append(f"{label} {_verdict_of_shift(levels, between)}: it {change} of {before:.3f}")
    note = "brackets are 95 % intervals over the frames" + (" and the seeds" if len(summary.seeds) > 1 else "")
    explained = f" ({note})" if any("[" in part for part in parts) else ""
    return f"{shown_name(name)}: {'; '.join(parts)}{explained}."


def _comparison(name: str, summary: Summary) -> list[str]:
    """How the methods end, compared with the baseline."""
    parts = []
    for label, curves in summary.differences.items():
        if (difference := curves.get(name, {}).get("end")) is None:
            continue
        value, between = difference.value, difference.interval
        place = f"{label} is {_number(abs(value), between, flipped=value < 0)} {'above' if value >= 0 else 'below'}"
        unsure = between is not None and between[0] <= 0 <= between[1]
        parts.append(f"{place}{', which may be chance' if unsure else ''}")
    return [f"At the end, compared with {BASELINE}: {'; '.join(parts)}."] if parts else []


def _number(value: float, between: Interval | None, flipped: bool = False) -> str:
    """A value with its interval; flipped if the value was made positive."""
    if between is None:
        return f"{value:.3f}"
    low, high = sorted(-bound for bound in between) if flipped else between
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _verdict_of_shift(levels: Levels, between: Interval | None) -> str:
    """Whether a method forgets: the interval says so or, without one, the deviation of the seeds."""
    losses = levels[LOST]
    loss = mean(losses)
    spread = stdev(losses) if len(losses) > 1 else 0.0
    sure = between[0] > 0 if between is not None else loss > spread
    if sure and loss > 0:
        return "forgets"
    return "does not forget" if loss <= (1 - KEPT) * mean(levels["before"]) else "may forget"


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
