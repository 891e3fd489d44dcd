"""Figures of what the clients' memories did: how many gradients were projected, and what the buffers hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedagem.plans.driving import DrivingSettings
from fedagem.reports.figures import PANEL, by_round, mark_shift, svg_of
from fedagem.reports.measured import Measured
from fedagem.runs.metrics_log import BUFFER_DOMAIN, FEDERATION, REFINED_SHARE, Curve, MetricRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def projection_panels(directories: Sequence[Path]) -> list[str]:
    """The share of projected gradients by round and client, a panel for each run with Fed-A-GEM."""
    from matplotlib.figure import Figure

    panels = []
    for run in map(Measured.of, directories):
        shares = _by_client(run.rows, REFINED_SHARE)
        if not run.plan.training.fedagem or not shares:
            continue
        figure = Figure(figsize=PANEL, layout="constrained")
        axes = figure.subplots()
        for client, share in shares.items():
            rounds = sorted(share)
            axes.plot(rounds, [100 * share[number] for number in rounds], marker="o", markersize=3, label=client)
        axes.set(title=f"{run.plan.label}: gradients projected, %", ylim=(0, None))
        _finish(axes, run)
        panels.append(svg_of(figure))
    return panels


def buffer_panels(directories: Sequence[Path]) -> list[str]:
    """What each vehicle's buffer holds by domain and round, a panel for each vehicle of each run with a buffer."""
    from matplotlib.figure import Figure

    panels = []
    for run in map(Measured.of, directories):
        if not isinstance(run.plan.data, DrivingSettings) or not run.plan.training.buffer.capacity:
            continue
        domains = {name: _by_client(run.rows, f"{BUFFER_DOMAIN}{name}") for name in run.plan.data.domains}
        for vehicle in run.plan.data.vehicles:
            known = {name: clients[vehicle] for name, clients in domains.items() if clients.get(vehicle)}
            if not known:
                continue
            rounds = sorted(next(iter(known.values())))
            figure = Figure(figsize=PANEL, layout="constrained")
            axes = figure.subplots()
            axes.stackplot(rounds, [[frames[n] for n in rounds] for frames in known.values()], labels=list(known))
            capacity = run.plan.training.buffer.capacity_of(vehicle)
            axes.set(title=f"{run.plan.label}: buffer of {vehicle}, frames", ylim=(0, capacity))
            _finish(axes, run)
            panels.append(svg_of(figure))
    return panels


def _by_client(rows: Sequence[MetricRow], metric: str) -> dict[str, Curve]:
    """A metric of the clients by the number of rounds trained."""
    found: dict[str, Curve] = defaultdict(dict)
    for row in rows:
        if row.metric == metric and row.client != FEDERATION:
            found[row.client][row.trained] = row.value
    return dict(found)


def _finish(axes: Axes, run: Measured) -> None:
    shift = run.plan.workload.shift_round
    if shift is not None and any(row.trained > shift for row in run.rows):
        mark_shift(axes, shift)
    axes.legend(fontsize="small")
    by_round(axes)
