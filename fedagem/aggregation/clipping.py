"""Limiting how much a client contributes: the whole vector is shortened, and its direction stays."""

import math
from collections.abc import Mapping

import numpy as np

from fedagem.aggregation.ring import Array


def length_of(arrays: Mapping[str, Array], origin: Mapping[str, Array] | None = None) -> float:
    """The Euclidean length of several arrays together, or of their differences to an origin."""
    total = 0.0
    for name, array in arrays.items():
        moved = np.subtract(array, 0 if origin is None else origin[name], dtype=np.float64).reshape(-1)
        total += float(np.einsum("i,i", moved, moved))
    return math.sqrt(total)


def shortened(
    arrays: Mapping[str, Array], longest: float, origin: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """The arrays as they are, or moved towards the origin until they are at most `longest` away from it.

    The bound holds for the rounded numbers that are sent, which is what a promise of privacy rests on.
    """
    length, less = length_of(arrays, origin), 0.0
    if length <= longest:
        return dict(arrays)
    while True:
        factor = longest / length * (1 - less)
        moved = {}
        for name, array in arrays.items():
            start = np.float64(0) if origin is None else origin[name].astype(np.float64)
            moved[name] = (start + (array - start) * factor).astype(array.dtype)
        if length_of(moved, origin) <= longest:
            return moved
        less = min(1.0, 2 * less + 2**-22)  # rounding has made it a little longer
