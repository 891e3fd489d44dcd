"""Tables and pictures of any set of runs."""

from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from rich.table import Table

from fedagem.learning.metrics import average_accuracy, average_forgetting
from fedagem.reports.spread import spread
from fedagem.runs.folder import plan_of_run
from fedagem.runs.results import accuracy_matrix, read_metrics

CONTINUAL_METRICS = {"accuracy": "Acc", "forgetting": "Fgt", "bwt": "BWT", "fwt": "FWT"}
"""The paper's metrics of continual learning, by their names in results.json."""


def label_of(results: dict[str, Any]) -> str:
    """What a run is called in tables and legends."""
    return str(results["method"]) + (" + Fed-A-GEM" if results["fedagem"] else "")


def label_of_plan(plan: dict[str, Any]) -> str:
    """The same for a run that has no results yet."""
    training = plan["task_runner"]["settings"]
    return label_of({"method": training.get("method", "fedavg"), "fedagem": training.get("fedagem", True)})


def results_table(all_results: list[dict[str, Any]]) -> Table:
    """One line per plan, method and scenario: mean and spread over the seeds, in per cent."""
    table = Table(title=None)
    for heading in ("plan", "method", "scenario", "seeds"):
        table.add_column(heading, overflow="fold")
    for heading in (*CONTINUAL_METRICS.values(), "rounds", "minutes"):
        table.add_column(heading, justify="right", overflow="fold")
    for (plan, label, kind), group in _grouped(all_results).items():
        cells = [spread(_percentages(group, metric, kind), digits=1) for metric in CONTINUAL_METRICS]
        seeds = ", ".join(str(seed) for seed in sorted(r["seed"] for r in group))
        rounds = "/".join(sorted({str(r["rounds"]) for r in group}))
        minutes = f"{mean(r['seconds'] for r in group) / 60:.1f}"
        table.add_row(plan, label, kind, seeds, *cells, rounds, minutes)
    return table


def draw_plots(directories: list[Path], out: Path) -> list[Path]:
    """Accuracy and forgetting by task, one picture per plan and scenario; averaged over seeds."""
    from matplotlib.figure import Figure

    curves: dict[tuple[str, str], dict[str, list[list[list[float]]]]] = defaultdict(lambda: defaultdict(list))
    for directory in directories:
        plan, name = plan_of_run(directory)
        rounds_per_task = plan["data_loader"]["settings"].get("rounds_per_task")
        if rounds_per_task is None:
            continue
        rows = read_metrics(directory)
        label = label_of_plan(plan)
        for kind in sorted({row["metric"].split("/")[1] for row in rows if row["metric"].startswith("accuracy/")}):
            matrix = accuracy_matrix(rows, kind, rounds_per_task)
            if len(matrix) > 1:
                curves[name, kind][label].append(matrix)
    pictures = []
    several = len({name for name, _ in curves}) > 1
    for (name, kind), methods in curves.items():
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        figure.suptitle(f"{name}, {kind.replace('_', '-')}")
        accuracy_axes, forgetting_axes = figure.subplots(1, 2)
        for label, matrices in sorted(methods.items()):
            style = "-o" if "Fed-A-GEM" in label else ":o"
            tasks = range(1, min(len(matrix) for matrix in matrices))
            accuracy = [100 * mean(average_accuracy(matrix, t) for matrix in matrices) for t in tasks]
            accuracy_axes.plot(tasks, accuracy, style, label=label, markersize=4)
            forgetting = [100 * mean(average_forgetting(matrix, t) for matrix in matrices) for t in tasks if t > 1]
            forgetting_axes.plot(range(2, 2 + len(forgetting)), forgetting, style, label=label, markersize=4)
        for axes, title in ((accuracy_axes, "Acc, higher is better"), (forgetting_axes, "Fgt, lower is better")):
            axes.set(title=title, xlabel="tasks learned", ylabel="%")
            axes.grid(alpha=0.3)
        accuracy_axes.legend(fontsize="small")
        out.mkdir(parents=True, exist_ok=True)
        picture = out / (f"{name}-{kind}.png" if several else f"{kind}.png")
        figure.savefig(picture, dpi=150)
        pictures.append(picture)
    return pictures


def _grouped(all_results: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for results in all_results:
        for kind in results.get("accuracy", {"-": None}):
            groups[results["plan"], label_of(results), kind].append(results)
    return groups


def _percentages(group: list[dict[str, Any]], metric: str, kind: str) -> list[float]:
    values = (results[metric].get(kind) for results in group if metric in results)
    return [100 * value for value in values if value is not None]
