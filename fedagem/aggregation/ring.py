"""Sums in 64-bit fixed point: the same bits in any order, in the memory of one contribution.

A value is multiplied by a power of two and rounded to a whole number; whole numbers add up exactly. How many of the 64
bits are for the fraction follows from the largest value and the greatest number of contributions, before the first one
arrives, so that no sum can leave the range. A value beyond it is refused, never clipped.

For values within ±1,024 and up to 1,024 contributions, a mean is off by at most 1e-13. (Two powers of two leave no bit
to spare for ±1,024 itself if exactly 1,024 may contribute: then the largest value is one step below.) Tensors of whole
numbers are exact. If contributions are weighted, the weights take some of the bits: the error of a mean is then that of
a plain one times the heaviest weight allowed over the average weight.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
Encoded = NDArray[np.int64]

HEAVIEST = 2**24
"""The largest weight of a contribution: a float32 counts no further one by one."""
MODEL_BOUND = 1024.0
"""How far a tensor of the model may move in one round, at least; fewer contributions leave room for more."""

_LARGEST = 2**63 - 1
_FINE_ENOUGH = 43
"""With so many bits of fraction a value is rounded by less than 6e-14."""
_CHUNK = 2**15
"""How many numbers are worked on at once: 256 KB of them stay in the cache, and no second tensor is made."""


class OutOfRangeError(ValueError):
    """A value that cannot be added."""


@dataclass(frozen=True)
class Encoding:
    """How the values of one tensor become whole numbers, the same for all contributions."""

    bits: int
    """How many bits are for the fraction; fewer than none if values are huge. None for tensors of whole numbers."""
    limit: int
    """The largest whole number that a contribution may become: the sum of all stays within 64 bits."""

    @classmethod
    def of(cls, dtype: DTypeLike, bound: float, contributions: int, heaviest: int = 1) -> "Encoding":
        """For values up to `bound` with weights up to `heaviest`; whole numbers have all the room there is."""
        limit = _LARGEST // max(contributions, 1)
        if np.dtype(dtype).kind != "f":
            return cls(0, limit)
        mantissa, exponent = math.frexp(bound * heaviest * max(contributions, 1))
        bits = 63 - exponent
        if mantissa == 0.5 and bits < _FINE_ENOUGH:
            bits += 1
        return cls(bits, min(limit, int(math.ldexp(bound * heaviest, bits))))


def model_bound(contributions: int, heaviest: int = 1) -> float:
    """How far a model's tensor may move in one round: all that an error of 1e-13 leaves, at least MODEL_BOUND."""
    if heaviest > 1:
        return MODEL_BOUND
    return max(MODEL_BOUND, 1024 * MODEL_BOUND / max(contributions, 1))


def encode(values: Array, encoding: Encoding, reference: Array | None = None, weight: int = 1) -> Encoded:
    """Values, or their differences to a reference, times the weight, as whole numbers of the same shape."""
    encoded = np.empty(values.shape, np.int64)
    flat = encoded.reshape(-1)
    for window, part in _encoded(values, encoding, reference, weight):
        flat[window] = part
    return encoded


def add(total: Encoded, encoded: Encoded) -> None:
    """Add one contribution to the sum, in place."""
    np.add(total, encoded, out=total)


def decode(
    total: Encoded, encoding: Encoding, dtype: DTypeLike, divisor: int = 1, reference: Array | None = None
) -> Array:
    """What a sum stands for, divided by the number or the weight of its contributions, and rounded once."""
    decoded = np.empty(total.shape, dtype)
    flat, sums = decoded.reshape(-1), total.reshape(-1)
    origin = None if reference is None else reference.reshape(-1)
    for window in _windows(total.size):
        # The quotient has no more digits than a float64, so that nothing is lost on the way to the last rounding.
        quotient, rest = np.divmod(sums[window], np.int64(divisor))
        if decoded.dtype.kind == "f":
            mean = quotient + rest / divisor
            np.multiply(mean, math.ldexp(1, -encoding.bits), out=mean)
            flat[window] = mean if origin is None else mean + origin[window]
            continue
        if origin is not None:
            quotient += origin[window].astype(np.int64)
        quotient += (2 * rest > divisor) | ((2 * rest == divisor) & (quotient % 2 == 1))
        flat[window] = quotient
    return decoded


class Accumulator:
    """The sum of a tensor over the contributions so far; a contribution that is refused leaves nothing in it."""

    def __init__(
        self, shape: tuple[int, ...], dtype: DTypeLike, encoding: Encoding, reference: Array | None = None
    ) -> None:
        """With a reference, such as the global model's tensor, what is added up is the difference to it."""
        self._total: Encoded = np.zeros(shape, np.int64)
        self._dtype = np.dtype(dtype)
        self._encoding = encoding
        self._reference = reference

    def add(self, values: Array, weight: int = 1) -> None:
        """Add a contribution; raises OutOfRangeError if it has a value that is too large."""
        flat, done = self._total.reshape(-1), 0
        try:
            for window, part in _encoded(values, self._encoding, self._reference, weight):
                add(flat[window], part)
                done = window.stop
        except OutOfRangeError:
            self._subtract(values, weight, done)
            raise

    def take_back(self, values: Array, weight: int = 1) -> None:
        """Remove a contribution as if it had never been added."""
        self._subtract(values, weight, self._total.size)

    def decode(self, divisor: int = 1) -> Array:
        """What the contributions add up to, divided by their number or weight."""
        return decode(self._total, self._encoding, self._dtype, divisor, self._reference)

    @property
    def total(self) -> Encoded:
        """The sum itself, in whole numbers."""
        return self._total

    def _subtract(self, values: Array, weight: int, size: int) -> None:
        flat = self._total.reshape(-1)
        if size:
            for window, part in _encoded(values, self._encoding, self._reference, weight, size):
                np.subtract(flat[window], part, out=flat[window])


def _windows(size: int) -> Iterator[slice]:
    for start in range(0, size, _CHUNK):
        yield slice(start, min(start + _CHUNK, size))


def _encoded(
    values: Array, encoding: Encoding, reference: Array | None, weight: int, size: int | None = None
) -> Iterator[tuple[slice, Encoded]]:
    """The encoded numbers, chunk by chunk; the array of a chunk is used again for the next one."""
    flat = values.reshape(-1)
    origin = None if reference is None else reference.reshape(-1)
    encode_part = _encode_reals if values.dtype.kind == "f" else _encode_whole_numbers
    encoded = np.empty(min(flat.size, _CHUNK), np.int64)
    for window in _windows(flat.size if size is None else size):
        part = encoded[: window.stop - window.start]
        encode_part(flat[window], None if origin is None else origin[window], encoding, weight, part)
        yield window, part


def _encode_reals(values: Array, origin: Array | None, encoding: Encoding, weight: int, out: Encoded) -> None:
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        scaled = np.subtract(values, 0 if origin is None else origin, dtype=np.float64)
        np.multiply(scaled, math.ldexp(weight, encoding.bits), out=scaled)
        np.rint(scaled, out=scaled)
    limit = float(encoding.limit)
    limit = limit if int(limit) <= encoding.limit else math.nextafter(limit, 0)
    _check(scaled, limit, values, origin, math.ldexp(limit / weight, -encoding.bits))
    np.copyto(out, scaled, casting="unsafe")


def _encode_whole_numbers(values: Array, origin: Array | None, encoding: Encoding, weight: int, out: Encoded) -> None:
    limit = encoding.limit // weight
    rough = values.astype(np.float64) if origin is None else np.subtract(values, origin, dtype=np.float64)
    _check(rough, float(limit), values, origin, limit)
    # Too close to the limit for a float64 to tell, it may still be beyond it.
    np.subtract(values.astype(np.int64), 0 if origin is None else origin.astype(np.int64), out=out)
    _check(out, limit, values, origin, limit)
    np.multiply(out, weight, out=out)


def _check(numbers: Array, limit: float, values: Array, origin: Array | None, bound: float) -> None:
    """Refuse a chunk with a number beyond the limit, or one that is not a number."""
    if numbers.max() <= limit and numbers.min() >= -limit:
        return
    place = int(np.argmin((numbers <= limit) & (numbers >= -limit)))
    moved = "" if origin is None else f", which was {origin[place]:g} before"
    raise OutOfRangeError(f"the value {values[place]:g}{moved}: more than ±{bound:,.10g} cannot be added up")
