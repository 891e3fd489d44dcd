"""The head of a page: the question that its runs were made for, and one sentence of answer for each method."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from fedagem.plans.driving import has_vehicles
from fedagem.reports.comparison import shift_note
from fedagem.runs.curves import MAP
from fedagem.runs.metric_names import shown_name


def question(plan: dict[str, Any], summary: dict[str, Any]) -> str:
    """What the runs were made to find out."""
    if summary["shift_round"] is not None:
        return "One car gets on the highway: does the federation forget the city?"
    if has_vehicles(plan):
        return "What has the federation learned to see?"
    return "Task after task: does the federation forget the first ones?"


def answer(plan: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """One sentence per method: on its earlier tasks, or on the domain that the vehicles begin in."""
    if summary["tasks"]:
        return [
            _answer_of_tasks(label, kind, metrics)
            for label, kinds in summary["tasks"].items()
            for kind, metrics in kinds.items()
        ]
    if summary["shift_round"] is not None and not summary["shift_reached"]:
        note = shift_note(summary)
        return [f"{note[0].upper()}{note[1:]}. So there is nothing to say yet about what was forgotten."]
    first = _first_domain(plan)
    sentences = [
        _answer_of_domain(label, name, curves[name])
        for label, curves in summary["methods"].items()
        if (name := _curve_of(first, curves)) is not None
    ]
    if sentences and summary["shift_reached"] and len(summary["seeds"]) == 1:
        sentences.append("This is a single seed: how much of it is chance, only more of them can tell.")
    return sentences or ["Nothing was evaluated."]


def lost(levels: dict[str, list[float]]) -> list[float]:
    """What every seed had before the shift and has no more at the end."""
    return [before - after for before, after in zip(levels.get("before", []), levels.get("after", []), strict=False)]


def _first_domain(plan: dict[str, Any]) -> str | None:
    """Where the vehicles begin."""
    loader = plan["data_loader"]["settings"]
    regions = [vehicle.get("region") for vehicle in plan.get("carla", {}).get("vehicles", [])]
    replayed = [legs[0].get("domain") for legs in loader.get("snippets", {}).values() if legs]
    return next((domain for domain in (*regions, *replayed, *loader.get("domains", [])) if domain), None)


def _curve_of(domain: str | None, curves: dict[str, Any]) -> str | None:
    """The domain's curve, or the first that is of one domain."""
    return f"{MAP}{domain}" if f"{MAP}{domain}" in curves else next((n for n in curves if n != f"{MAP}all"), None)


def _answer_of_domain(label: str, name: str, levels: dict[str, list[float]]) -> str:
    losses = lost(levels)
    if not losses:
        end = mean(levels.get("end") or levels.get("after") or levels["before"])
        return f"{label}: {shown_name(name)} {end:.3f} at the end."
    verdict = f"{_verdict(losses)}, " if len(losses) > 1 else ""
    change = f"{abs(mean(losses)):.3f} {'below' if mean(losses) > 0 else 'above'} its level before the shift"
    return f"{label}: {verdict}{shown_name(name)} ends {change}, at {mean(levels['after']):.3f}."


def _answer_of_tasks(label: str, kind: str, metrics: dict[str, list[float]]) -> str:
    what = f"{label} ({shown_name(kind)})"
    if not metrics["accuracy"]:
        return f"{what}: no task was learned to its end."
    accuracy = f"{100 * mean(metrics['accuracy']):.1f} % over all tasks learned"
    if not metrics["forgetting"]:
        return f"{what}: {accuracy}; with a single task there is nothing to forget."
    points = 100 * mean(metrics["forgetting"])
    change = f"{abs(points):.1f} points {'below' if points > 0 else 'above'} their previous best"
    return f"{what}: {_verdict(metrics['forgetting'])}, earlier tasks end {change}; {accuracy}."


def _verdict(losses: Sequence[float]) -> str:
    """Whether it was forgotten: a loss counts if it is larger than the spread of the seeds."""
    deviation = stdev(losses) if len(losses) > 1 else 0.0
    return "no" if mean(losses) <= 0 else "yes" if mean(losses) > deviation else "not clearly"
