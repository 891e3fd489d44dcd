"""`fedagem evaluate` for classification runs: the accuracy of a saved model on every task of its plan."""

import json
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from fedagem.errors import DataError, PlanError
from fedagem.learning.methods import METHODS
from fedagem.learning.model_file import read_model
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.tasks.accuracy import count_correct
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.stream import TaskStream


def evaluate_classifier(model_path: Path, allowed: tuple[str, ...], plan_path: Path | None, json_path: Path) -> None:
    """Score a model on the test data of all tasks, print the table and write the JSON."""
    saved = read_model(model_path)
    plan_path = plan_path or model_path.resolve().parent.parent / "plan" / "plan.yaml"
    if not plan_path.is_file():
        raise DataError(f"{model_path} needs the plan of its run, which is not at {plan_path}: name it with --plan.")
    plan = Plan.load(plan_path)
    check_plan(plan)
    if not isinstance(plan.data, StreamSettings):
        raise PlanError(f"the plan {plan_path} trains a detector: say which drives to score with --snippets.")
    network, objective = saved.build_network(allowed), saved.build_objective(allowed)
    stream = TaskStream(plan.data)
    torch.set_num_threads(plan.training.threads)
    network.eval()
    parts = [
        count_correct(partial(objective.logits, network), stream.client(rank).test_sets(), stream.tasks).ratios
        for rank in range(stream.settings.clients)
    ]
    totals = {kind: torch.stack([part[kind] for part in parts]).sum(dim=0) for kind in parts[0]}
    accuracies = {kind: (counts[:, 0] / counts[:, 1]).tolist() for kind, counts in totals.items()}
    table = Table()
    table.add_column("task")
    for kind in accuracies:
        table.add_column(kind, justify="right")
    for task in range(stream.tasks.count):
        table.add_row(str(task + 1), *(f"{100 * values[task]:.1f}" for values in accuracies.values()))
    table.add_section()
    table.add_row("mean", *(f"{100 * sum(values) / len(values):.1f}" for values in accuracies.values()))
    json_path.parent.mkdir(parents=True, exist_ok=True)
    note = _what_is_missing(plan)
    found = {"accuracy": accuracies, "model": str(model_path), **({"note": note} if note else {})}
    json_path.write_text(json.dumps(found, indent=2), encoding="utf-8")
    console = Console()
    console.print(table)
    if note:
        console.print(note)
    console.print(f"wrote {json_path}")


def _what_is_missing(plan: Plan) -> str | None:
    """What a method answers with besides its model, so that these are not its answers."""
    name = plan.training.method
    wanted = plan.training.build_method().wants("evaluate") if name in METHODS else []
    if not wanted:
        return None
    return (
        f"These are the answers of the network's outputs: method {name} answers by {' and '.join(wanted)}, which a "
        "model file does not hold. What it scores itself is in the results of its run."
    )
