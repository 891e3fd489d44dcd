"""What an evaluation reports, and how accuracy is counted so that it adds up over clients."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.tasks.sources import Labelled
from fedagem.tasks.tasks import Tasks

SCENARIOS = ("domain_il", "class_il", "task_il")


@dataclass(frozen=True)
class Evaluation:
    """One client's part of an evaluation."""

    ratios: dict[str, Tensor] = field(default_factory=dict)
    """Exact counts, n x 2 (numerator, denominator), that are summed over clients before they are divided."""
    metrics: dict[str, float | list[float]] = field(default_factory=dict)
    """Numbers, or rows of them, that belong to this client alone."""


@torch.no_grad()
def count_correct(
    scores: Callable[[Batch], Tensor],
    test_sets: Iterable[Labelled],
    tasks: Tasks,
    scenarios: Collection[str] = SCENARIOS,
    batch_size: int = 512,
) -> Evaluation:
    """Correct answers and their number for every task: domain-IL, or class-IL and task-IL if classes differ.

    Task-IL knows the task: only its classes compete. Counts add up on the device of the scores and are read once.
    """
    correct: list[Tensor] = []
    sizes: list[int] = []
    for task, data in enumerate(test_sets):
        sizes.append(len(data))
        total = None
        for start in range(0, len(data), batch_size):
            part = data[slice(start, start + batch_size)]
            given = scores({"x": part.x})
            right = _right_answers(given, part.y.to(given.device), tasks.classes_of(task))
            total = right if total is None else total + right
        correct.append(torch.zeros(2, dtype=torch.int64) if total is None else total)
    counts = torch.stack([total.cpu() for total in correct])
    all_compete = all(len(tasks.classes_of(task)) == tasks.classes for task in range(tasks.count))
    names = ("domain_il",) if all_compete else ("class_il", "task_il")
    return Evaluation(
        {
            name: torch.stack([counts[:, column], torch.tensor(sizes)], dim=1)
            for column, name in enumerate(names)
            if name in scenarios
        }
    )


def _right_answers(scores: Tensor, labels: Tensor, allowed: range) -> Tensor:
    """How many samples are right if all classes compete, and how many if only the task's do."""
    first, last = allowed.start, allowed.stop
    open_right = (scores.argmax(dim=1) == labels).sum()
    told_right = (scores[:, first:last].argmax(dim=1) + first == labels).sum()
    return torch.stack([open_right, told_right])
