"""Accuracy, forgetting and transfer, exactly as the paper defines them.

`matrix[t][i]` is a_{t,i}: the accuracy on task i after training up to task t, with row 0 the untrained model, so the
matrix has T + 1 rows and T columns. Rows of tasks not trained yet are missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Summary:
    """The four numbers after task t; None if the paper defines none (a single task)."""

    accuracy: float
    forgetting: float | None
    bwt: float | None
    fwt: float | None


def average_accuracy(matrix: Matrix, t: int) -> float:
    """Acc_t = 1/t sum_{i<=t} a_{t,i}."""
    return sum(matrix[t][:t]) / t


def average_forgetting(matrix: Matrix, t: int) -> float:
    """Fgt_t = 1/(t-1) sum_{i<t} max_{j<t} (a_{j,i} - a_{t,i})."""
    drops = [max(matrix[j][i] for j in range(1, t)) - matrix[t][i] for i in range(t - 1)]
    return sum(drops) / (t - 1)


def backward_transfer(matrix: Matrix, t: int) -> float:
    """BWT = 1/(t-1) sum_{i<t} (a_{t,i} - a_{i,i})."""
    return sum(matrix[t][i] - matrix[i + 1][i] for i in range(t - 1)) / (t - 1)


def forward_transfer(matrix: Matrix, t: int) -> float:
    """FWT = 1/(t-1) sum_{1<i<=t} (a_{i-1,i} - b_i), with b_i the accuracy of the untrained model."""
    return sum(matrix[i][i] - matrix[0][i] for i in range(1, t)) / (t - 1)


def summarise(matrix: Matrix) -> Summary:
    """The numbers after the last trained task."""
    t = len(matrix) - 1
    if t == 1:
        return Summary(average_accuracy(matrix, 1), None, None, None)
    return Summary(
        average_accuracy(matrix, t),
        average_forgetting(matrix, t),
        backward_transfer(matrix, t),
        forward_transfer(matrix, t),
    )
