"""A study's pictures, one line for each row and side."""

from collections.abc import Sequence
from pathlib import Path

from fedagem.runs.metrics_log import shown_name
from fedagem.studies.curves import Curve


def draw_curves(curves: Sequence[Curve], out: Path) -> list[Path]:
    """One picture per plan, scenario and kind of plot; lines are means over the seeds, dotted without Fed-A-GEM."""
    pictures: dict[str, list[Curve]] = {}
    for curve in curves:
        pictures.setdefault(f"{curve.plan}-{curve.scenario}-{curve.plot}.png", []).append(curve)
    for name, shown in pictures.items():
        _draw(shown, out / name)
    return [out / name for name in pictures]


def _draw(curves: Sequence[Curve], path: Path) -> None:
    from matplotlib.figure import Figure

    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        panels.setdefault(curve.quantity, []).append(curve)
    rows = list(dict.fromkeys(curve.row for curve in curves))
    figure = Figure(figsize=(4.8 * len(panels), 3.6), layout="constrained")
    subplots = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (quantity, shown) in zip(subplots, panels.items(), strict=True):
        for curve in shown:
            axes.plot(
                list(curve.points),
                [point.mean for point in curve.points.values()],
                "-o" if curve.side == "with" else ":o",
                color=f"C{rows.index(curve.row) % 10}",
                label=curve.name,
                markersize=4,
            )
        axes.set(title=f"{quantity} ({shown_name(curves[0].scenario)})", xlabel="tasks learned", ylabel="%")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
