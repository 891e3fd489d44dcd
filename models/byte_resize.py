"""Bilinear resizing of bytes in exact arithmetic that a graph can hold: what torchvision does to bytes on a processor.

Frames are scaled as bytes for training: weights are whole numbers of so many bits, and what one direction gives is
rounded to bytes before the other. Resizing in floating point differs from it by one level in every tenth pixel, which
shows in the scores of a detector. Products and sums below are whole numbers that single precision holds exactly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_MOST_BITS = 22
_LARGEST_WEIGHT = 2**15
_EXACT = 2**24
"""Whole numbers up to this are exact in single precision."""


class ByteResize(nn.Module):
    """Resizes images (N, C, H, W), whose values are whole numbers from 0 to 255, to another width and height."""

    def __init__(self, given: tuple[int, int], wanted: tuple[int, int]) -> None:
        """Both as width and height."""
        super().__init__()
        self._across = _Direction(given[0], wanted[0])
        self._down = _Direction(given[1], wanted[1])

    def forward(self, pixels: Tensor) -> Tensor:
        if self._across.changes:
            weights = self._across.weights
            pixels = self._across.rounded(pixels.to(weights) @ weights.T)
        if self._down.changes:
            weights = self._down.weights
            pixels = self._down.rounded(weights @ pixels.to(weights))
        return pixels


class _Direction(nn.Module):
    """Every new pixel is a weighted sum of old ones; a product of matrices is faster than looking them up."""

    weights: Tensor

    def __init__(self, given: int, wanted: int) -> None:
        super().__init__()
        self.changes = given != wanted
        weights, bits = _weights(given, wanted)
        self._unit = float(2**bits)
        exact = 256 * self._unit <= _EXACT
        self.register_buffer("weights", weights.float() if exact else weights)

    def rounded(self, sums: Tensor) -> Tensor:
        return ((sums + self._unit / 2) / self._unit).floor().clamp(0, 255).float()


def _weights(given: int, wanted: int) -> tuple[Tensor, int]:
    """How much each old pixel counts in each new one (wanted, given), as whole numbers, and the bits of these.

    A triangle as wide as two new pixels, at least two old ones, is laid over the old pixels.
    """
    scale = given / wanted
    support = max(scale, 1.0)
    rows: list[list[float]] = []
    starts: list[int] = []
    for place in range(wanted):
        centre = scale * (place + 0.5)
        start = max(int(centre - support + 0.5), 0)
        stop = min(int(centre + support + 0.5), given)
        triangle = [max(0.0, 1.0 - abs((old - centre + 0.5) / support)) for old in range(start, stop)]
        total = sum(triangle)
        rows.append([value / total for value in triangle])
        starts.append(start)
    largest = max(max(row) for row in rows)
    bits = 0
    while bits < _MOST_BITS and int(0.5 + largest * 2 ** (bits + 1)) < _LARGEST_WEIGHT:
        bits += 1
    weights = torch.zeros((wanted, given), dtype=torch.float64)
    for place, (start, row) in enumerate(zip(starts, rows, strict=True)):
        whole = [math.floor(value * 2**bits + 0.5) for value in row]
        weights[place, start : start + len(row)] = torch.tensor(whole, dtype=torch.float64)
    return weights, bits
