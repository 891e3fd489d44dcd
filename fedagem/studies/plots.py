"""A study's pictures: how accuracy and forgetting develop from task to task."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from fedagem.errors import PlanError
from fedagem.metrics import Matrix, average_accuracy, average_forgetting
from fedagem.settings import suggestion
from fedagem.studies.study import Study
from fedagem.studies.study_runs import StudyRun

Curve = Callable[[Matrix, int], float]
"""What is shown after task t."""

PLOTS: dict[str, list[tuple[str, int, Curve]]] = {
    "progress": [
        ("Acc, higher is better", 1, average_accuracy),
        ("Fgt, lower is better", 2, average_forgetting),
    ],
    "first_task": [("accuracy on task 1", 1, lambda matrix, t: matrix[t][0])],
    "current_task": [("accuracy on the current task", 1, lambda matrix, t: matrix[t][t - 1])],
}
"""Each picture's panels: title, first task with a value, curve."""


def draw_study(study: Study, runs: Sequence[StudyRun], out: Path) -> list[Path]:
    """One picture per plan, scenario and kind of plot; lines are means over the seeds, dotted without Fed-A-GEM."""
    pictures = []
    for number, part in enumerate(study.parts):
        matrices = _matrices([run for run in runs if run.part == number and run.finished])
        for kind, curves in matrices.items():
            for plot in study.plots:
                if plot not in PLOTS:
                    raise PlanError(f"the study {study.name} asks for the plot {plot!r}{suggestion(plot, PLOTS)}")
                path = out / f"{part.plan}-{kind}-{plot}.png"
                _draw(plot, kind, curves, path)
                pictures.append(path)
    return pictures


def _matrices(runs: Sequence[StudyRun]) -> dict[str, dict[tuple[str, str], list[Matrix]]]:
    """Accuracy matrices by scenario, then by row and side."""
    found: dict[str, dict[tuple[str, str], list[Matrix]]] = {}
    for run in runs:
        for kind, matrix in run.results().get("accuracy_matrix", {}).items():
            found.setdefault(kind, {}).setdefault((run.label, run.side), []).append(matrix)
    return found


def _draw(plot: str, kind: str, curves: dict[tuple[str, str], list[Matrix]], path: Path) -> None:
    from matplotlib.figure import Figure

    panels = PLOTS[plot]
    figure = Figure(figsize=(4.8 * len(panels), 3.6), layout="constrained")
    labels = sorted({label for label, _ in curves})
    for axes, (title, first, curve) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for (label, side), matrices in sorted(curves.items()):
            tasks = range(first, min(len(matrix) for matrix in matrices))
            values = [100 * mean(curve(matrix, t) for matrix in matrices) for t in tasks]
            axes.plot(
                tasks,
                values,
                "-o" if side == "with" else ":o",
                color=f"C{labels.index(label) % 10}",
                label=f"{label} + Fed-A-GEM" if side == "with" else label,
                markersize=4,
            )
        axes.set(title=f"{title} ({kind.replace('_', '-')})", xlabel="tasks learned", ylabel="%")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
