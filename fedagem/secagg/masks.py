"""A key becomes a mask: a stream of random numbers that is added to a vector or taken from it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

Vector = NDArray[Any]
"""uint32 or uint64, in the order of bytes that is sent."""
RINGS: dict[int, np.dtype[Any]] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}
"""Sums modulo 2^32 and 2^64: wrapping around is exact, and a uniform mask hides a number completely."""

_CHUNK = 2**18
"""Bytes of a mask that are made at once: they stay in the cache."""


def apply_masks(vector: Vector, masks: Iterable[tuple[bytes, int]]) -> None:
    """Add the mask of each key to the vector (sign 1), or take it away (sign -1), in place."""
    streams = [(_keystream(key), np.add if sign > 0 else np.subtract) for key, sign in masks]
    nothing, made = bytes(_CHUNK), bytearray(_CHUNK)
    numbers = np.frombuffer(made, vector.dtype)
    step = len(numbers)
    for start in range(0, len(vector), step):
        part = vector[start : start + step]
        size = part.nbytes
        for stream, combine in streams:
            stream.update_into(memoryview(nothing)[:size], memoryview(made)[:size])
            combine(part, numbers[: len(part)], out=part)


def _keystream(key: bytes) -> CipherContext:
    """ChaCha20 with a nonce of zeros: no key makes two masks."""
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
