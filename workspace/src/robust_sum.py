"""Robust means of a stage: single results wait on disk, and blocks of a few coordinates of all clients are averaged.

Memory does not grow with the clients. The plain sums go on as well: they refuse what is out of range, and they are the
means of what the plan does not want to be robust.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedagem.aggregation.ring import OutOfRangeError
from fedagem.aggregation.robust import clipping_factors, median, scaled_mean, trimmed_mean
from fedagem.aggregation.settings import RobustMean, RobustSettings
from fedagem.aggregation.spool import Spool
from src.averaging import TaskSum, Weighting, weight_of
from src.task_results import EXCHANGE, TRAINED, Array, Expected, Result

_BLOCK_BYTES = 2**24
"""How much of the results of all clients is in memory at once."""


@dataclass(frozen=True)
class _Part:
    """A tensor of a row: where it begins, and what its values are differences to."""

    kind: tuple[str, ...]
    name: str
    offset: int
    like: Array
    """The global model's tensor; zeros for what is exchanged."""

    @property
    def counts(self) -> bool:
        """Whether it belongs to a contribution's length and direction: counters do not."""
        return self.like.dtype.kind == "f"


class RobustSum(TaskSum):
    """The robust means of a task's results; all clients that have data count alike."""

    def __init__(
        self, asked: Expected, members: int, robust: RobustSettings, folder: Path, weighting: Weighting = "uniform"
    ) -> None:
        """Results wait in `folder`; `weighting` is that of what has plain means."""
        super().__init__(asked, members, weighting)
        self._chosen = {TRAINED: robust.of_model, EXCHANGE: robust.of_g_ref}
        self._rows: list[_Part] = []
        tensors = [(TRAINED, name, array) for name, array in asked.model.items()]
        tensors += [(EXCHANGE, exchange.name, np.zeros(exchange.shape, np.float32)) for exchange in asked.exchanges]
        offset = 0
        for kind, name, like in tensors:
            self._rows.append(_Part(kind, name, offset, like))
            offset += like.nbytes
        self._spool = Spool(folder, offset)

    def add(self, result: Result, client: str = "") -> None:
        if weight_of(result, "uniform") == 0:
            return
        self._spool.put(client, (result[part.kind][part.name] for part in self._rows))
        try:
            super().add(result, client)
        except OutOfRangeError:
            self._spool.drop(client)
            raise

    def take_back(self, result: Result, client: str = "") -> None:
        super().take_back(result, client)
        if weight_of(result, "uniform"):
            self._spool.drop(client)

    def model(self) -> dict[str, Array]:
        if not self.contributors:
            return {}
        return {part.name: self._means[part.kind, part.name] for part in self._rows if part.kind == TRAINED}

    def combined(self) -> dict[str, Array]:
        if not self.contributors:
            return super().combined()
        return {part.name: self._means[part.kind, part.name] for part in self._rows if part.kind == EXCHANGE}

    def agreement(self) -> dict[str, float]:
        """The cosine of the angle between what each client contributed and the mean; 0 if one of them is nothing."""
        clients = self._spool.keys()
        dots, lengths, own = np.zeros(len(clients)), np.zeros(len(clients)), 0.0
        for part in self._rows:
            if part.counts and clients:
                mean, like = (array.reshape(-1) for array in (self._means[part.kind, part.name], part.like))
                for window, values in self._blocks(part):
                    moved = np.subtract(mean[window], like[window], dtype=np.float64)
                    dots += np.einsum("ij,j->i", values, moved)
                    lengths += np.einsum("ij,ij->i", values, values)
                    own += float(np.einsum("i,i", moved, moved))
        lengths = np.sqrt(lengths * own)
        return {
            client: float(dot / length) if length > 0 else 0.0
            for client, dot, length in zip(clients, dots, lengths, strict=True)
        }

    def close(self) -> None:
        self._spool.close()

    @cached_property
    def _means(self) -> dict[tuple[tuple[str, ...], str], Array]:
        plain = {TRAINED: super().model(), EXCHANGE: super().combined()}
        means: dict[tuple[tuple[str, ...], str], Array] = {}
        for kind, chosen in self._chosen.items():
            parts = [part for part in self._rows if part.kind == kind]
            factors = self._factors(parts, chosen) if chosen.kind == "clipped_mean" else []
            for part in parts:
                robust = chosen.kind != "mean"
                means[kind, part.name] = self._mean(part, chosen, factors) if robust else plain[kind][part.name]
        return means

    def _mean(self, part: _Part, chosen: RobustMean, factors: list[float]) -> Array:
        mean = np.empty(part.like.size, np.float64)
        for window, values in self._blocks(part):
            if chosen.kind == "trimmed_mean":
                mean[window] = trimmed_mean(values, chosen.trim)
            elif chosen.kind == "median" or not part.counts:
                mean[window] = median(values)
            else:
                mean[window] = scaled_mean(values, factors)
        mean += part.like.reshape(-1)
        whole = np.rint(mean) if not part.counts else mean
        return whole.astype(part.like.dtype).reshape(part.like.shape)

    def _factors(self, parts: list[_Part], chosen: RobustMean) -> list[float]:
        squares = np.zeros(len(self._spool.keys()))
        for part in parts:
            if part.counts:
                for _, values in self._blocks(part):
                    squares += np.einsum("ij,ij->i", values, values)
        return clipping_factors([math.sqrt(square) for square in squares], chosen.clip)

    def _blocks(self, part: _Part) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """What all clients contributed, by their names, a few coordinates at a time; a block is used again."""
        clients, like = self._spool.keys(), part.like.reshape(-1)
        width = max(1, min(like.size, _BLOCK_BYTES // (8 * max(len(clients), 1))))
        block, read = np.empty((len(clients), width)), np.empty(width, like.dtype)
        for start in range(0, like.size, width):
            window = slice(start, min(start + width, like.size))
            size = window.stop - start
            for row, client in zip(block, clients, strict=True):
                self._spool.read(client, part.offset + start * like.itemsize, read[:size])
                np.subtract(read[:size], like[window], out=row[:size], dtype=np.float64)
            yield window, block[:, :size]
