"""Means that survive clients who send anything: coordinate by coordinate, or of contributions of limited length.

Every function takes the values of all clients for some coordinates, a row for each client. Rows are sorted or come in a
fixed order, so that the same contributions give the same bits in whatever order they arrived.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.float64]


def trimmed_mean(values: Block, trim: float) -> NDArray[np.float64]:
    """The mean of each column without its largest and smallest values; `trim` is the share of either."""
    left_out = count_left_out(len(values), trim)
    ordered = np.sort(values, axis=0)
    mean: NDArray[np.float64] = ordered[left_out : len(values) - left_out].mean(axis=0)
    return mean


def count_left_out(clients: int, trim: float) -> int:
    """How many values are left out at either end: the share rounded up, as long as a value remains."""
    return max(0, min(math.ceil(trim * clients - 1e-9), (clients - 1) // 2))


def median(values: Block) -> NDArray[np.float64]:
    """The middle value of each column, or the mean of the two in the middle."""
    ordered = np.sort(values, axis=0)
    middle, odd = divmod(len(values), 2)
    found: NDArray[np.float64] = ordered[middle] if odd else (ordered[middle - 1] + ordered[middle]) / 2
    return found


def scaled_mean(values: Block, factors: Sequence[float]) -> NDArray[np.float64]:
    """The mean of the rows, each multiplied by its factor."""
    total = np.zeros(values.shape[1])
    for factor, row in zip(factors, values, strict=True):  # a matrix product would depend on the number of threads
        total += factor * row
    return total / len(values)


def clipping_factors(lengths: Sequence[float], clip: float) -> list[float]:
    """What shortens contributions to `clip` times the median length; shorter ones stay as they are."""
    longest = clip * float(np.median(lengths))
    return [min(1.0, longest / length) if length > 0 else 1.0 for length in lengths]
