"""A task's result as it travels: what each kind of tensor is for, and what a good result looks like.

The kind of a tensor is its OpenFL tag. Model tensors are averaged into the next global model, exchanged tensors are
combined into what later stages ask for, ratios are summed and divided, metrics are logged. A weight says how much the
client's tensors count. Tensors of the previous model, a teacher's, only go to clients. Masked vectors and the messages
of secure aggregation take the place of all of these in the stages that it protects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openfl.utilities import TensorKey

from fedagem.learning.exchange import Exchange
from fedagem.plans.federation import FederatedTask
from fedagem.runs.metrics_log import DRAWN

MODEL = ("model",)
TRAINED = ("trained",)
EXCHANGE = ("exchange",)
PREVIOUS = ("previous",)
RATIO = ("ratio",)
METRIC = ("metric",)
WEIGHT = ("weight",)
MASKED = ("masked",)
SECAGG = ("secagg",)

Array = NDArray[Any]
Result = Mapping[tuple[str, ...], Mapping[str, Array]]
"""Tensors by kind and name."""


@dataclass(frozen=True)
class Expected:
    """What the model and the exchanged tensors look like, known from the initial state."""

    model: Mapping[str, Array]
    exchanges: tuple[Exchange, ...]

    def asked_of(self, task: FederatedTask) -> "Expected":
        """The part that a task publishes: a method exchanges in the stage that is called like the task's function."""
        published = task.kwargs.publishes
        exchanges = [exchange for exchange in self.exchanges if exchange.stage == task.function]
        return Expected(self.model if "model" in published else {}, tuple(exchanges if "method" in published else ()))


def input_name(key: TensorKey) -> str:
    """What a task finds a tensor under: the previous model has the same names as the model."""
    return f"{PREVIOUS[0]}/{key.tensor_name}" if key.tags == PREVIOUS else str(key.tensor_name)


def previous_model_in(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The previous model among a task's inputs; empty if the task did not ask for it."""
    prefix = f"{PREVIOUS[0]}/"
    return {name.removeprefix(prefix): array for name, array in inputs.items() if name.startswith(prefix)}


def split_by_kind(tensors: Mapping[TensorKey, Array]) -> Result:
    """What a client has sent, sorted."""
    kinds: dict[tuple[str, ...], dict[str, Array]] = {kind: {} for kind in (TRAINED, EXCHANGE, RATIO, METRIC, WEIGHT)}
    for key, value in tensors.items():
        kinds.setdefault(key.tags, {})[key.tensor_name] = value
    return kinds


def without_tensors(kinds: Result) -> Result:
    """What is kept of a result once its tensors are added up: what it measured and counted, and its weight."""
    return {kind: {name: np.array(array) for name, array in kinds[kind].items()} for kind in (RATIO, METRIC, WEIGHT)}


def find_fault(kinds: Result, asked: Expected) -> str | None:
    """Why a result cannot be taken, in a few words, or None for a good one."""
    unknown = set(kinds) - {TRAINED, EXCHANGE, RATIO, METRIC, WEIGHT}
    if unknown:
        return f"tensors of unknown kinds {sorted(unknown)}"
    wanted_model = {name: (array.shape, array.dtype) for name, array in asked.model.items()}
    wanted_exchange = {exchange.name: (exchange.shape, np.dtype(np.float32)) for exchange in asked.exchanges}
    for kind, wanted in ((TRAINED, wanted_model), (EXCHANGE, wanted_exchange)):
        if fault := _differs(kinds[kind], wanted):
            return fault
    if fault := _malformed(kinds):
        return fault
    for arrays in kinds.values():
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return f"tensor {name!r} has values that are not finite"
    return None


def _malformed(kinds: Result) -> str | None:
    """What is logged and summed must be single numbers, draws a row of numbers, and ratios pairs of counts."""
    for kind in (METRIC, WEIGHT):
        for name, array in kinds[kind].items():
            row = kind == METRIC and name.startswith(DRAWN)
            if array.dtype.kind not in "fiu" or not (array.ndim == 1 if row else array.size == 1):
                wanted = "a row of numbers" if row else "one number"
                return f"{kind[0]} {name!r} is {array.dtype} {array.shape}, but should be {wanted}"
    if extra := sorted(kinds[WEIGHT].keys() - {"weight"}):
        return f"weight {extra[0]!r} was not asked for"
    if any(float(array) < 0 for array in kinds[WEIGHT].values()):
        return "its weight is negative"
    for name, array in kinds[RATIO].items():
        if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
            return f"ratio {name!r} is {array.dtype} {array.shape}, but should be whole numbers (n, 2)"
    return None


def _differs(given: Mapping[str, Array], wanted: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> str | None:
    if missing := sorted(wanted.keys() - given.keys()):
        return f"tensor {missing[0]!r} is missing ({len(missing)} in all)"
    if extra := sorted(given.keys() - wanted.keys()):
        return f"tensor {extra[0]!r} was not asked for ({len(extra)} in all)"
    for name, (shape, dtype) in wanted.items():
        if given[name].shape != tuple(shape) or given[name].dtype != dtype:
            return f"tensor {name!r} is {given[name].dtype} {given[name].shape}, but should be {dtype} {tuple(shape)}"
    return None
