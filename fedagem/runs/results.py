"""results.json: what a run has shown, derived from its metrics.jsonl and its plan and nothing else."""

import dataclasses
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from fedagem.errors import FedAGemError
from fedagem.files import write_file
from fedagem.learning.metrics import summarise
from fedagem.plans.drive import shift_round
from fedagem.plans.plan import Plan
from fedagem.runs.curves import MAP, curves_of, last_evaluation, levels
from fedagem.runs.folder import plan_of_run

Row = dict[str, Any]
_CLIENT_SECONDS = ("train_seconds", "buffer_gradient_seconds")
"""What a round costs its clients; without Fed-A-GEM there is no buffer gradient."""


def read_metrics(directory: Path) -> list[Row]:
    """All rows of a run; a last row that is still being written is left out."""
    path = directory / "metrics.jsonl"
    if not path.exists():
        raise FedAGemError(f"{directory} has no metrics.jsonl: the run has not begun, or this is not a run.")
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    try:
        return [json.loads(line) for line in complete.splitlines()]
    except ValueError as problem:
        raise FedAGemError(f"{path} is damaged: it must hold one JSON object in every line ({problem}).") from problem


def accuracy_matrix(rows: list[Row], kind: str, rounds_per_task: int) -> list[list[float]]:
    """a[t][i] at the task ends, row 0 being the untrained model."""
    by_rounds: dict[int, list[float]] = {}
    for row in rows:
        if row["metric"] == f"accuracy/{kind}":
            trained = 0 if row["stage"] == "baseline" else row["round"] + 1
            by_rounds[trained] = row["value"]
    matrix: list[list[float]] = []
    while len(matrix) * rounds_per_task in by_rounds:
        matrix.append(by_rounds[len(matrix) * rounds_per_task])
    return matrix


def collect_results(directory: Path) -> dict[str, Any]:
    """Everything that results.json holds."""
    plan, name = plan_of_run(directory)
    rows = read_metrics(directory)
    training, loader = plan["task_runner"]["settings"], plan["data_loader"]["settings"]
    results: dict[str, Any] = {
        "plan": name,
        "method": training.get("method", "fedavg"),
        "fedagem": training.get("fedagem", True),
        "seed": loader["seed"],
        "rounds": 1 + max((row["round"] for row in rows), default=-1),
        "clients": len({row["client"] for row in rows} - {"federation"}),
        "model": training["model"]["template"],
        "seconds": sum(row["value"] for row in rows if row["metric"] == "seconds"),
        "train_seconds": sum(row["value"] for row in rows if row["metric"] == "train_seconds"),
        "client_seconds": sum(row["value"] for row in rows if row["metric"] in _CLIENT_SECONDS),
        "refined_share": _mean([row["value"] for row in rows if row["metric"] == "refined_share"]),
        "bytes": _bytes_per_client_and_round(rows),
    }
    return {**results, **_continual_metrics(rows, plan), **_detection_metrics(rows, plan)}


def write_results(directory: Path) -> dict[str, Any]:
    """Derive and write results.json."""
    results = collect_results(directory)
    write_file(directory / "results.json", json.dumps(results, indent=2))
    return results


def write_final_results(directory: Path) -> dict[str, Any]:
    """results.json of a run that has come to its end, with all of its rounds."""
    results = write_results(directory)
    wanted = plan_of_run(directory)[0]["aggregator"]["settings"]["rounds_to_train"]
    if results["rounds"] < wanted:
        raise FedAGemError(
            f"{directory / 'metrics.jsonl'} holds {results['rounds']} of {wanted} rounds although the run has ended: "
            "its rows were lost; start it again in another folder (--out)."
        )
    return results


def rounds_in_results(directory: Path) -> int:
    """How many rounds results.json is about; 0 if there is none, or a damaged one."""
    try:
        return int(json.loads((directory / "results.json").read_text(encoding="utf-8"))["rounds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _continual_metrics(rows: list[Row], plan: Plan) -> dict[str, Any]:
    rounds_per_task = plan["data_loader"]["settings"].get("rounds_per_task")
    metrics: dict[str, dict[str, Any]] = defaultdict(dict)
    if rounds_per_task is None:
        return {}
    for kind in sorted({row["metric"].split("/")[1] for row in rows if row["metric"].startswith("accuracy/")}):
        matrix = accuracy_matrix(rows, kind, rounds_per_task)
        metrics["accuracy_matrix"][kind] = matrix
        if len(matrix) > 1:
            for metric, value in dataclasses.asdict(summarise(matrix)).items():
                metrics[metric][kind] = value
    return dict(metrics)


def _detection_metrics(rows: list[Row], plan: Plan) -> dict[str, Any]:
    """mAP by domain, before and after the shift if an evaluation followed it; nothing if no mAP was measured."""
    curves = {name: curve for name, curve in curves_of(rows).items() if name.startswith(MAP)}
    last = last_evaluation([curves])
    if last is None:
        return {}
    shift = shift_round(plan)
    divided = shift if shift is not None and last > shift else None
    scores = {name.removeprefix(MAP): levels(name, curve, divided) for name, curve in curves.items()}
    return {"shift_round": shift, "map_50": scores}


def _mean(values: list[float]) -> float:
    """The mean, or 0 of nothing."""
    return sum(values) / max(len(values), 1)


def _bytes_per_client_and_round(rows: list[Row]) -> dict[str, float]:
    """Mean bytes that one client downloads and uploads in one round."""
    clients = {row["client"] for row in rows if row["metric"] == "bytes_up"}
    rounds = {row["round"] for row in rows}
    turns = max(len(clients) * len(rounds), 1)
    return {
        direction: sum(row["value"] for row in rows if row["metric"] == f"bytes_{direction}") / turns
        for direction in ("down", "up")
    }
