"""A task's result as it travels: what each kind of tensor is for, and what a good result looks like.

The kind of a tensor is its OpenFL tag. Model tensors are averaged into the next global model, exchanged tensors into
what the next stage asks for, ratios are summed and divided, metrics are logged. A weight says how much the client's
tensors count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openfl.utilities import TensorKey

MODEL = ("model",)
TRAINED = ("trained",)
EXCHANGE = ("exchange",)
RATIO = ("ratio",)
METRIC = ("metric",)
WEIGHT = ("weight",)

Array = NDArray[Any]
Result = Mapping[tuple[str, ...], Mapping[str, Array]]
"""Tensors by kind and name."""


@dataclass(frozen=True)
class Expected:
    """What the model and the exchanged tensors look like, known from the initial state."""

    model: Mapping[str, Array]
    exchange: Mapping[str, tuple[int, ...]]


def split_by_kind(tensors: Mapping[TensorKey, Array]) -> Result:
    """What a client has sent, sorted."""
    kinds: dict[tuple[str, ...], dict[str, Array]] = {kind: {} for kind in (TRAINED, EXCHANGE, RATIO, METRIC, WEIGHT)}
    for key, value in tensors.items():
        kinds.setdefault(key.tags, {})[key.tensor_name] = value
    return kinds


def find_fault(kinds: Result, publishes: list[str], expected: Expected) -> str | None:
    """Why a result cannot be taken, in a few words, or None for a good one."""
    unknown = set(kinds) - {TRAINED, EXCHANGE, RATIO, METRIC, WEIGHT}
    if unknown:
        return f"tensors of unknown kinds {sorted(unknown)}"
    model = {name: (array.shape, array.dtype) for name, array in expected.model.items()}
    wanted_model = model if "model" in publishes else {}
    wanted_exchange = {
        name: (expected.exchange[name], np.dtype(np.float32)) for name in publishes if name in expected.exchange
    }
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
    """What is summed and logged must be single numbers, and pairs of counts."""
    for kind in (METRIC, WEIGHT):
        for name, array in kinds[kind].items():
            if array.size != 1 or array.dtype.kind not in "fiu":
                return f"{kind[0]} {name!r} is {array.dtype} {array.shape}, but should be one number"
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
