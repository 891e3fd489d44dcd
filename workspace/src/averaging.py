"""What a stage's results become: one sum of their tensors as they arrive, and one sum of what they counted."""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np

from fedagem.aggregation.ring import HEAVIEST, Accumulator, Encoding, OutOfRangeError, model_bound
from fedagem.aggregation.settings import BufferWeighting
from fedagem.learning.exchange import Exchange
from fedagem.runs.metrics_log import ALL_DOMAINS
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Array, Expected, Result

logger = logging.getLogger(__name__)

Weighting = Literal["uniform", "samples"] | BufferWeighting

_ROOT_STEPS = 1024
"""How finely square roots are told apart: weights are whole numbers."""


def weight_of(result: Result, weighting: Weighting) -> int:
    """How much a client counts: by what it has counted, or as much as any other that has some."""
    weight = float(result[WEIGHT].get("weight", np.float32(1)))
    if weighting == "uniform":
        return int(weight > 0)
    if not weight.is_integer() or weight > HEAVIEST:
        raise OutOfRangeError(f"its weight is {weight:g}, but should be a whole number of at most {HEAVIEST:,} samples")
    if weighting.startswith("sqrt_"):
        return round(_ROOT_STEPS * math.sqrt(weight))
    return int(weight)


class TaskSum:
    """The sum of a task's results so far: the memory of one result, however many clients there are."""

    def __init__(self, asked: Expected, members: int, weighting: Weighting) -> None:
        """`asked` is what each of at most `members` clients sends, with the model that the round began with."""
        self._asked = asked
        self._members = members
        self._weighting = weighting
        self._sums: dict[tuple[tuple[str, ...], str], Accumulator] = {}
        self.contributors = 0
        """How many clients count."""
        self._weight = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to average."""
        return not self.contributors

    def add(self, result: Result, client: str = "") -> None:
        """Add a checked result; raises OutOfRangeError, and leaves nothing of it, if it has a value too large.

        Sums that keep single results know them by the client's name.
        """
        weight = weight_of(result, self._weighting)
        if weight == 0:
            return
        self._sums = self._sums or self._fresh()
        added: list[tuple[Accumulator, Array, int]] = []
        for name, accumulator, array, times in self._parts(result, weight):
            try:
                accumulator.add(array, times)
            except OutOfRangeError as problem:
                for earlier, given, earlier_times in added:
                    earlier.take_back(given, earlier_times)
                raise OutOfRangeError(f"tensor {name!r} has {problem}") from problem
            added.append((accumulator, array, times))
        self.contributors += 1
        self._weight += weight

    def take_back(self, result: Result, client: str = "") -> None:
        """Remove a result as if it had never been added."""
        weight = weight_of(result, self._weighting)
        if weight == 0:
            return
        for _, accumulator, array, times in self._parts(result, weight):
            accumulator.take_back(array, times)
        self.contributors -= 1
        self._weight -= weight

    def model(self) -> dict[str, Array]:
        """The clients' average of the model; nothing if the task sends none, or if nobody counts."""
        if not self.contributors:
            return {}
        return {name: self._sums[TRAINED, name].decode(self._weight) for name in self._asked.model}

    def combined(self) -> dict[str, Array]:
        """What the exchanged tensors add up to, as each was announced; zeros if nobody counts."""
        return {exchange.name: self._combine(exchange) for exchange in self._asked.exchanges}

    def agreement(self) -> dict[str, float]:
        """How well each client's contribution agrees with the mean; nothing if single results are not kept."""
        return {}

    def close(self) -> None:
        """Forget the results: the stage is over."""

    def _combine(self, exchange: Exchange) -> Array:
        if not self.contributors:
            return np.zeros(exchange.shape, np.float32)
        return self._sums[EXCHANGE, exchange.name].decode(self._weight if exchange.combine == "mean" else 1)

    def _parts(self, result: Result, weight: int) -> Iterator[tuple[str, Accumulator, Array, int]]:
        """Each tensor with the sum it belongs to and how many times it counts."""
        for name in self._asked.model:
            yield name, self._sums[TRAINED, name], result[TRAINED][name], weight
        for exchange in self._asked.exchanges:
            times = weight if exchange.combine == "mean" else 1
            yield exchange.name, self._sums[EXCHANGE, exchange.name], result[EXCHANGE][exchange.name], times

    def _fresh(self) -> dict[tuple[tuple[str, ...], str], Accumulator]:
        heaviest = 1 if self._weighting == "uniform" else HEAVIEST
        bound = model_bound(self._members, heaviest)
        sums: dict[tuple[tuple[str, ...], str], Accumulator] = {}
        for name, array in self._asked.model.items():
            encoding = Encoding.of(array.dtype, bound, self._members, heaviest)
            sums[TRAINED, name] = Accumulator(array.shape, array.dtype, encoding, reference=array)
        for exchange in self._asked.exchanges:
            times = heaviest if exchange.combine == "mean" else 1
            encoding = Encoding.of(np.float32, exchange.bound, self._members, times)
            sums[EXCHANGE, exchange.name] = Accumulator(exchange.shape, np.float32, encoding)
        return sums


class StageSums:
    """The sums of a stage's tasks; a client's results count together, once the last of them is there."""

    def __init__(self, sums: Mapping[str, TaskSum]) -> None:
        self._sums = sums
        self._incomplete: dict[str, dict[str, Result]] = {}
        """By client, what was sent while other results of the same stage are missing."""

    def __getitem__(self, task: str) -> TaskSum:
        return self._sums[task]

    def add(self, client: str, task: str, result: Result) -> None:
        """Take a checked result; raises OutOfRangeError, and forgets the client, if it cannot be added."""
        results = {**self._incomplete.pop(client, {}), task: result}
        if len(results) < len(self._sums):
            owned = {kind: {name: np.array(array) for name, array in part.items()} for kind, part in result.items()}
            self._incomplete[client] = {**results, task: owned}
            return
        added: list[str] = []
        for name, given in results.items():
            try:
                self._sums[name].add(given, client)
            except OutOfRangeError:
                for earlier in added:
                    self._sums[earlier].take_back(results[earlier], client)
                raise
            added.append(name)

    def forget(self, client: str) -> None:
        """Drop what a refused client has sent so far."""
        self._incomplete.pop(client, None)


def shares(results: Mapping[str, Result]) -> dict[str, list[float]]:
    """What all clients have counted together, as shares by name."""
    counts = add_ratios({client: result[RATIO] for client, result in results.items()})
    return {name: (count[:, 0] / np.maximum(count[:, 1], 1)).tolist() for name, count in counts.items()}


def score_of(results: Mapping[str, Result], accuracies: Mapping[str, list[float]]) -> float | None:
    """What the evaluated model is ranked by: mAP if a client reports it, or accuracy; None if nothing was evaluated."""
    scores = [float(result[METRIC][ALL_DOMAINS]) for result in results.values() if ALL_DOMAINS in result[METRIC]]
    if accuracies:
        scores.append(float(np.mean(next(iter(accuracies.values())))))
    return max(scores, default=None)


def add_ratios(ratios: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """The counts of all clients by name; a client that counted something else than most is left out."""
    shapes = {client: tuple((name, array.shape) for name, array in given.items()) for client, given in ratios.items()}
    usual, _ = Counter(shapes.values()).most_common(1)[0]
    for client in ratios:
        if shapes[client] != usual:
            logger.error("The counts of %s are left out: they are %s instead of %s", client, shapes[client], usual)
    agreeing = [given for client, given in ratios.items() if shapes[client] == usual]
    return {name: np.sum([given[name] for given in agreeing], axis=0) for name, _ in usual}
