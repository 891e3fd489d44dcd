"""What a stage's results become: one average of their tensors, and one sum of what they counted."""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedagem.runs.metrics_log import ALL_DOMAINS
from src.task_results import METRIC, RATIO, WEIGHT, Array, Result

logger = logging.getLogger(__name__)

Weighting = Literal["uniform", "samples"]


def weights_of(results: Mapping[str, Result], weighting: Weighting) -> list[float]:
    """How much each client counts: by its samples, or as much as any other that has some."""
    weights = [float(result[WEIGHT].get("weight", np.float32(1))) for result in results.values()]
    return weights if weighting == "samples" else [float(weight > 0) for weight in weights]


def mean_tensors(results: Mapping[str, Result], kind: tuple[str, ...], weights: list[float]) -> dict[str, Array]:
    """The clients' average of every tensor of a kind."""
    given = [result[kind] for result in results.values()]
    return {name: weighted_mean([tensors[name] for tensors in given], weights) for name in given[0]}


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


def weighted_mean(arrays: list[Array], weights: list[float]) -> Array:
    """sum w_i a_i / sum w_i in the arrays' own dtype and in the order given; zeros if nobody counts."""
    total = sum(weights)
    if total == 0:
        return np.zeros_like(arrays[0])
    if arrays[0].dtype.kind != "f":
        mean = sum(array * (weight / total) for array, weight in zip(arrays, weights, strict=True))
        return np.rint(mean).astype(arrays[0].dtype)
    result = np.zeros_like(arrays[0])
    for array, weight in zip(arrays, weights, strict=True):
        if weight:
            result += array * array.dtype.type(weight / total)
    return result
