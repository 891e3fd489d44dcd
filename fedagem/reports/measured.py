"""What one run has measured, as far as tables, curves and answers are concerned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.workload import DrivingWorkload
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import (
    ALL_DOMAINS,
    AP_50,
    MAP_50,
    Curve,
    MetricRow,
    class_curves_of,
    curves_of,
    draws_of,
    read_metrics,
)


@dataclass(frozen=True)
class Measured:
    """A run's plan and curves: mAP by domain with the first class on its own, or accuracy by scenario."""

    plan: Plan
    rows: list[MetricRow]
    curves: dict[str, Curve]
    """By the name of the metric, in the order in which they are shown."""
    draws: dict[str, dict[int, tuple[float, ...]]]
    """The same on other draws of the frames, of curves that have them."""

    @classmethod
    def of(cls, directory: Path) -> Measured:
        """Read a run; refuses a folder that is none, or that has measured nothing yet."""
        plan, rows = plan_of_run(directory), read_metrics(directory)
        curves = curves_of(rows) | class_curves_of(rows)
        shown = _shown(plan, curves)
        draws = draws_of(rows)
        return cls(
            plan,
            rows,
            {name: curves[name] for name in shown},
            {name: draws[name] for name in shown if name in draws},
        )


def _shown(plan: Plan, curves: Mapping[str, Curve]) -> list[str]:
    """The first domain before the others, in each the mean before its first class; all domains only if alone."""
    if not isinstance(plan.data, DrivingSettings) or not isinstance(plan.workload, DrivingWorkload):
        return sorted(name for name in curves if not name.startswith(AP_50))
    domains = [name.removeprefix(MAP_50) for name in curves if name.startswith(MAP_50) and name != ALL_DOMAINS]
    if not domains:
        return [name for name in curves if name == ALL_DOMAINS]
    first = plan.workload.domains_of_shift[0]
    names = []
    for domain in sorted(domains, key=lambda name: (name != first, name)):
        names.append(f"{MAP_50}{domain}")
        if len(plan.data.classes) > 1:
            names.append(f"{AP_50}{domain}/{plan.data.classes[0]}")
    return [name for name in names if name in curves]
