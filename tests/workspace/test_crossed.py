"""What crosses a worker's pipe, and what is remembered of it at both ends."""

from typing import Any

import numpy as np

from src.task_results import EXCHANGE, MODEL, PREVIOUS
from src.workers import Crossed, PipeLink, WorkerPool


class Aggregator:
    """Offers tensors that a test sets."""

    def __init__(self):
        self.tensors = {}

    def lookup(self, *key):
        return self.tensors[key[:3]]


class Pipe:
    """A worker's end whose other end is the pool's answer; counts the arrays that cross."""

    def __init__(self, aggregator):
        self.pool = WorkerPool.__new__(WorkerPool)
        self.pool._aggregator = aggregator
        self.sent, self.crossed = Crossed(), []

    def send(self, question):
        kind, *arguments = question
        answer = self.pool._answer("a", kind, arguments, self.sent)
        if answer is not None:
            self.crossed.append(arguments[:2])
        self.answer = None if answer is None else answer.copy()

    def recv(self):
        return self.answer


def test_a_tensor_crosses_once_and_again_only_if_it_is_another():
    aggregator = Aggregator()
    pipe: Any = Pipe(aggregator)
    link = PipeLink(pipe, Crossed())
    for round_number in range(4, 12):
        aggregator.tensors["w", round_number, MODEL] = np.array([round_number])
        aggregator.tensors["kept", round_number, EXCHANGE] = np.array([-round_number])
        began = round_number // 4 * 4
        aggregator.tensors.setdefault(("teacher", began, PREVIOUS), np.array([100 + began]))
        for _ in range(3):
            assert link.fetch("w", round_number, MODEL) == round_number
            assert link.fetch("teacher", began, PREVIOUS) == 100 + began
            assert link.fetch("kept", round_number, EXCHANGE) == -round_number
        aggregator.tensors["kept", round_number, EXCHANGE] = np.array([round_number / 2])
        for _ in range(2):
            assert link.fetch("kept", round_number, EXCHANGE) == round_number / 2
    expected = sorted([["w", r] for r in range(4, 12)] + [["kept", r] for r in range(4, 12)] * 2)
    assert sorted(pipe.crossed) == sorted([*expected, ["teacher", 4], ["teacher", 8]])
    assert len(pipe.sent._arrays) == len(link._received._arrays) == 5, "of two rounds, and one previous model"
