"""Sums with differential privacy: contributions of limited length, and Gaussian noise on what they add up to.

The noise is rounded to the whole numbers that the sum consists of, so that what comes out is the rounded sum of exact
numbers: the last bits of floating-point numbers tell nothing about the sum.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedagem.aggregation.clipping import length_of
from fedagem.aggregation.noise import LARGEST, standard_normal
from fedagem.aggregation.ring import Accumulator, Encoding, OutOfRangeError, decode
from fedagem.aggregation.settings import PrivacySettings
from src.averaging import TaskSum, weight_of
from src.task_results import EXCHANGE, TRAINED, Array, Expected, Result

_ROUNDING = 1 + 1e-9
KeyOf = Callable[[bytes], bytes]
"""The key of the noise for a sum with a digest."""


@dataclass(frozen=True)
class _Part:
    """A tensor of the sum."""

    encoding: Encoding
    accumulator: Accumulator
    dtype: np.dtype[np.floating]
    reference: Array | None
    scale: float
    """The standard deviation of its noise."""


class PrivateSum(TaskSum):
    """The noisy sum of a task's results, divided by the number of members: who has no data contributes nothing.

    That number is known to all. To divide by the number of those who contributed would tell who did.
    """

    def __init__(
        self, asked: Expected, members: int, privacy: PrivacySettings, key_of: KeyOf, nobody_can: bool = False
    ) -> None:
        """`nobody_can` contribute: everybody knows it, as of buffers in the first round, and no noise need hide it."""
        super().__init__(asked, members, "uniform")
        self._nobody_can = nobody_can
        self._privacy = privacy
        self._key_of = key_of
        self._clips: dict[tuple[str, ...], float] = {TRAINED: privacy.model_clip, EXCHANGE: privacy.g_ref_clip}
        self._parts_of: dict[tuple[tuple[str, ...], str], _Part] = {}
        self._sums = self._fresh()

    @property
    def empty(self) -> bool:
        return self._nobody_can and super().empty

    def noise_length(self) -> float:
        """How long the noise of the mean is, in multiples of the longest mean that there could be without it."""
        size = sum(part.accumulator.total.size for part in self._parts_of.values())
        return self._privacy.noise * math.sqrt(size) / self._members

    def add(self, result: Result, client: str = "") -> None:
        if weight_of(result, "uniform"):
            self._check_length("change of the model", length_of(result[TRAINED], self._asked.model), TRAINED)
            self._check_length("buffer gradient", length_of(result[EXCHANGE]), EXCHANGE)
        super().add(result, client)

    def model(self) -> dict[str, Array]:
        return super().model() if self.empty else self._released(TRAINED)

    def combined(self) -> dict[str, Array]:
        return super().combined() if self.empty else self._released(EXCHANGE)

    def _released(self, kind: tuple[str, ...]) -> dict[str, Array]:
        parts = {name: part for (of, name), part in self._parts_of.items() if of == kind}
        digest = hashlib.sha256()
        for part in parts.values():
            digest.update(part.accumulator.total.data)
        key = self._key_of(digest.digest())
        return {name: self._noisy(part, key + name.encode()) for name, part in parts.items()}

    def _noisy(self, part: _Part, key: bytes) -> Array:
        total = part.accumulator.total
        noise = standard_normal(key, total.size).reshape(total.shape)
        np.multiply(noise, math.ldexp(part.scale, part.encoding.bits), out=noise)
        np.rint(noise, out=noise)
        return decode(total + noise.astype(np.int64), part.encoding, part.dtype, self._members, part.reference)

    def _check_length(self, what: str, length: float, kind: tuple[str, ...]) -> None:
        if length > self._clips[kind] * _ROUNDING:
            setting = "model_clip" if kind == TRAINED else "g_ref_clip"
            raise OutOfRangeError(
                f"its {what} is {length:.6g} long, but aggregator.settings.privacy.{setting} is "
                f"{self._clips[kind]:g}: it was not shortened"
            )

    def _fresh(self) -> dict[tuple[tuple[str, ...], str], Accumulator]:
        """Room for all contributions and for the largest noise."""
        tensors: list[tuple[tuple[str, ...], str, Array, Array | None]] = [
            (TRAINED, name, array, array) for name, array in self._asked.model.items()
        ]
        for exchange in self._asked.exchanges:
            tensors.append((EXCHANGE, exchange.name, np.empty(exchange.shape, np.float32), None))
        sums = {}
        for kind, name, like, reference in tensors:
            clip = self._clips[kind]
            bound = clip * (_ROUNDING + LARGEST * self._privacy.noise)
            encoding = Encoding.of(like.dtype, bound, self._members)
            accumulator = Accumulator(like.shape, like.dtype, encoding, reference)
            scale = clip * self._privacy.noise
            self._parts_of[kind, name] = _Part(encoding, accumulator, like.dtype, reference, scale)
            sums[kind, name] = accumulator
        return sums
