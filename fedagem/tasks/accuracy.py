"""What an evaluation reports, and how accuracy is counted so that it adds up over clients."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedagem.learning.objective import Objective
from fedagem.tasks.sources import Labelled
from fedagem.tasks.tasks import Tasks


@dataclass(frozen=True)
class Evaluation:
    """One client's part of an evaluation."""

    ratios: dict[str, Tensor] = field(default_factory=dict)
    """Exact counts, n x 2 (numerator, denominator), that are summed over clients before they are divided."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers that belong to this client alone."""


@torch.no_grad()
def count_correct(
    model: nn.Module, objective: Objective, test_sets: Iterable[Labelled], tasks: Tasks, batch_size: int = 512
) -> Evaluation:
    """Correct answers and their number for every task: domain-IL, or class-IL and task-IL if classes differ.

    Task-IL knows the task: only its classes compete.
    """
    model.eval()
    open_counts, masked_counts = [], []
    for task, data in enumerate(test_sets):
        allowed = torch.tensor(tasks.classes_of(task))
        correct = torch.zeros(2, dtype=torch.int64)
        for start in range(0, len(data), batch_size):
            part = data[slice(start, start + batch_size)]
            logits = objective.logits(model, {"x": part.x})
            correct[0] += (logits.argmax(dim=1) == part.y).sum()
            correct[1] += (allowed[logits[:, allowed].argmax(dim=1)] == part.y).sum()
        open_counts.append([int(correct[0]), len(data)])
        masked_counts.append([int(correct[1]), len(data)])
    if all(len(tasks.classes_of(task)) == tasks.classes for task in range(tasks.count)):
        return Evaluation({"domain_il": torch.tensor(open_counts)})
    return Evaluation({"class_il": torch.tensor(open_counts), "task_il": torch.tensor(masked_counts)})
