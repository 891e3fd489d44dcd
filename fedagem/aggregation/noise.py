"""Gaussian noise that nobody can predict and that can be repeated by who knows the key.

A generator such as numpy's would not do: whoever sees enough of its numbers knows the others. The bits come from
SHAKE-256, of a key that comes from the operating system.
"""

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_CHUNK = 2**16
LARGEST = 8.6
"""No number is larger, in standard deviations: a uniform number of 53 bits is at least 2**-53."""


def standard_normal(key: bytes, size: int) -> NDArray[np.float64]:
    """So many independent numbers of the standard normal distribution; the same key gives the same."""
    return np.concatenate([np.zeros(0), *_chunks(key, size)])[:size]


def _chunks(key: bytes, size: int) -> Iterator[NDArray[np.float64]]:
    """The method of Box and Muller: two uniform numbers make two normal ones."""
    for number in range(-(-size // _CHUNK)):
        stream = hashlib.shake_256(len(key).to_bytes(4, "big") + key + number.to_bytes(8, "big"))
        bits = np.frombuffer(stream.digest(8 * _CHUNK), np.uint64) >> np.uint64(11)
        first, second = bits.astype(np.float64).reshape(2, -1)
        radius = np.sqrt(-2 * np.log((first + 1) * 2.0**-53))
        angle = second * (2 * np.pi * 2.0**-53)
        yield np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
