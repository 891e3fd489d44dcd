"""The subspace that holds most of what a layer has seen: grown at the end of a task, removed from later updates.

A basis U is d x r with orthonormal columns. Inputs R are d x n, one column for each; s_i are singular values.
"""

import torch
from torch import Tensor

_NOTHING = 1e-12
"""The share of the energy below which a direction is rounding error: 1e-6 of the length."""


class Inputs:
    """All inputs R that a layer has seen; once there are more columns than rows, only R R' is kept."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._columns: list[Tensor] = []
        self._gram: Tensor | None = None

    def add(self, columns: Tensor) -> None:
        """Add more columns."""
        self._columns.append(columns.double())
        if self._gram is None and sum(part.shape[1] for part in self._columns) <= self._rows:
            return
        for part in self._columns:
            self._gram = part @ part.T if self._gram is None else self._gram.addmm_(part, part.T)
        self._columns.clear()

    def energy(self) -> Tensor | float:
        """||R||^2."""
        if self._gram is not None:
            return self._gram.trace()
        return sum((part.square().sum() for part in self._columns), 0.0)

    def outside(self, basis: Tensor) -> tuple[Tensor, Tensor]:
        """Of R^ = R - U U'R, the s_i^2 in falling order and the left singular vectors, of any length.

        They come from the smaller one of the two Gram matrices: R is long and thin, or short and wide.
        """
        if self._gram is not None:
            half = self._gram - basis @ (basis.T @ self._gram)
            values, vectors = torch.linalg.eigh(half - (half @ basis) @ basis.T)
        else:
            columns = torch.cat(self._columns or [basis.new_zeros(self._rows, 0)], dim=1)
            columns = columns - basis @ (basis.T @ columns)
            values, vectors = torch.linalg.eigh(columns.T @ columns)
            vectors = columns @ vectors
        return values.flip(0).clamp_(min=0), vectors.flip(1)


def grow(basis: Tensor, inputs: Inputs, threshold: float) -> Tensor:
    """The basis with as few new directions as let it hold the share `threshold` of the inputs' energy.

    That is the smallest r with (||R||^2 - ||R^||^2 + s_1^2 + ... + s_r^2) / ||R||^2 >= threshold.
    """
    known = basis.double()
    energies, directions = inputs.outside(known)
    total = inputs.energy()
    before = (total - energies.sum()).clamp(min=0)
    held = before + torch.cat([energies.new_zeros(1), energies.cumsum(0)])
    wanted = int((held < threshold * total).sum())
    r = min(wanted, int((energies > _NOTHING * total).sum()), len(basis) - basis.shape[1])
    if r == 0:
        return basis
    added = directions[:, :r]
    for _ in range(2):  # a Gram matrix has half the digits: once more makes the columns orthonormal to all of them
        added = torch.linalg.qr(added - known @ (known.T @ added)).Q
    return torch.cat([basis, added.to(basis.dtype)], dim=1)


def remove(basis: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """[W b] <- [W b] - ([W b] U) U', in place; without a bias W alone."""
    inner = weight.shape[1]
    within = weight @ basis[:inner]
    if bias is not None:
        within.addr_(bias, basis[inner])
        bias.addmv_(within, basis[inner], alpha=-1)
    weight.addmm_(within, basis[:inner].T, alpha=-1)
