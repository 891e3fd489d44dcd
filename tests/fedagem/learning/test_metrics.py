"""Acc, Fgt, BWT and FWT against matrices worked out by hand."""

from dataclasses import asdict

import pytest

from fedagem.learning.metrics import (
    Summary,
    average_accuracy,
    average_forgetting,
    backward_transfer,
    forward_transfer,
    summarise,
)

# Row 0 is the untrained model; a[t][i] after task t on task i (columns from task 1).
MATRIX = [
    [0.10, 0.12, 0.08],
    [0.90, 0.30, 0.20],
    [0.60, 0.80, 0.40],
    [0.50, 0.70, 0.95],
]


def test_accuracy_is_the_mean_over_the_tasks_so_far():
    assert average_accuracy(MATRIX, 1) == pytest.approx(0.90)
    assert average_accuracy(MATRIX, 2) == pytest.approx((0.60 + 0.80) / 2)
    assert average_accuracy(MATRIX, 3) == pytest.approx((0.50 + 0.70 + 0.95) / 3)


def test_forgetting_is_the_drop_from_the_best_earlier_accuracy():
    assert average_forgetting(MATRIX, 2) == pytest.approx(0.90 - 0.60)
    assert average_forgetting(MATRIX, 3) == pytest.approx(((0.90 - 0.50) + (0.80 - 0.70)) / 2)


def test_forgetting_looks_at_all_earlier_tasks_and_not_at_the_untrained_model():
    improved_later = [[0.99, 0.99, 0.99], [0.5, 0.3, 0.1], [0.7, 0.6, 0.1], [0.6, 0.8, 0.9]]
    assert average_forgetting(improved_later, 3) == pytest.approx(((0.7 - 0.6) + (0.6 - 0.8)) / 2)


def test_backward_transfer_compares_with_the_moment_a_task_was_learned():
    assert backward_transfer(MATRIX, 3) == pytest.approx(((0.50 - 0.90) + (0.70 - 0.80)) / 2)


def test_forward_transfer_compares_with_the_untrained_model():
    assert forward_transfer(MATRIX, 3) == pytest.approx(((0.30 - 0.12) + (0.40 - 0.08)) / 2)


def test_the_summary_is_that_of_the_last_trained_task():
    assert asdict(summarise(MATRIX)) == pytest.approx(
        {"accuracy": (0.50 + 0.70 + 0.95) / 3, "forgetting": 0.25, "bwt": -0.25, "fwt": 0.25}
    )
    assert asdict(summarise(MATRIX[:3])) == pytest.approx(
        {"accuracy": 0.7, "forgetting": 0.3, "bwt": -0.3, "fwt": 0.18}
    )


def test_one_task_has_an_accuracy_and_nothing_else():
    assert summarise(MATRIX[:2]) == Summary(0.9, None, None, None)
