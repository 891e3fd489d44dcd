"""The inputs of a linear layer, from its gradient alone: exact if few samples went through it.

The gradient of a layer's weights and bias is a sum over the samples, of (what the loss wants of each output) times
(input, 1). So the rows of the gradient span the inputs. Behind a ReLU the first factor is zero wherever an output is
not active, and that is what tells the samples apart: the right combination of columns is the one with many zeros. That
a batch can be taken apart like this was shown by Dimitrov et al. (SPEAR, 2024).
"""

import torch
from torch import Tensor

_NEGLIGIBLE = 1e-5
"""Singular values below this share of the largest are rounding."""
_ZERO = 1e-4
"""An output that is this small beside what it is made of is not active."""
_TRIES = 2**15
_AT_ONCE = 2**12
_LEAST_SHARE = 0.05
"""At least this share of the outputs is not active for a sample, beyond those that were made zero."""
_MIXED = 1e-3
"""A direction this close to the span of others is a mixture of them."""


def inputs_of(gradient: Tensor, bias_gradient: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """The inputs that could be told apart, one in a row; `samples` is how many there are at most."""
    rows = torch.cat([gradient, bias_gradient[:, None]], dim=1).double()
    rows = rows[rows.norm(dim=1) > _NEGLIGIBLE * rows.norm(dim=1).max()]  # outputs that no sample made active
    if len(rows) < 2:
        return rows.new_zeros(0, gradient.shape[1])
    left, values, right = torch.linalg.svd(rows, full_matrices=False)
    rank = min(samples, int((values > _NEGLIGIBLE * values[0]).sum()))
    found = _sparse_directions(left[:, :rank], generator)
    if len(found) == rank:
        return _scaled(torch.linalg.solve(found.T, values[:rank, None] * right[:rank]))
    return _scaled(_lone_rows(rows))


def _sparse_directions(columns: Tensor, generator: torch.Generator) -> Tensor:
    """A basis of combinations of the columns, those with the most zeros: each belongs to one sample.

    What is not active for two samples is not active for each of them, so that a mixture of two never has more zeros
    than both, unless the loss wants the same of them wherever they are active. Taking the one with the most zeros next,
    if it is no mixture of those before it, finds them all.
    """
    outputs, rank = columns.shape
    if rank == 1:
        return columns.new_ones(1, 1)
    columns = columns / columns.norm(dim=1, keepdim=True)
    candidates, counts = [], []
    for _ in range(_TRIES // _AT_ONCE):
        chosen = torch.rand(_AT_ONCE, outputs, generator=generator).topk(rank - 1, dim=1).indices
        _, values, right = torch.linalg.svd(columns[chosen], full_matrices=True)
        directions = right[values[:, -1] > _ZERO, -1]  # of several solutions, none means anything
        candidates.append(directions)
        counts.append(((directions @ columns.T).abs() < _ZERO).sum(dim=1))
    directions, zeros = torch.cat(candidates), torch.cat(counts)
    found = columns.new_zeros(0, rank)
    for place in torch.argsort(zeros, descending=True, stable=True).tolist():
        if len(found) == rank or zeros[place] < rank - 1 + max(2, _LEAST_SHARE * outputs):
            break
        direction = directions[place]
        if len(found):
            rest = direction - found.T @ torch.linalg.lstsq(found.T, direction[:, None]).solution[:, 0]
            if rest.norm() < _MIXED:
                continue
        found = torch.cat([found, direction[None]])
    return found


def _lone_rows(rows: Tensor) -> Tensor:
    """Rows that several outputs agree on up to a factor: one sample alone was active there."""
    scaled = rows[rows[:, -1].abs() > _ZERO * rows[:, -1].abs().max()]
    scaled = scaled / scaled[:, -1:]
    scaled = scaled[torch.isfinite(scaled).all(dim=1)]
    lone: list[Tensor] = []
    for place, row in enumerate(scaled):
        others = torch.cat([scaled[:place], scaled[place + 1 :]])
        near = (others - row).norm(dim=1) < _ZERO * row.norm()
        if near.any() and all((row - known).norm() > 10 * _ZERO * row.norm() for known in lone):
            lone.append(row)
    return torch.stack(lone) if lone else rows.new_zeros(0, rows.shape[1])


def _scaled(rows: Tensor) -> Tensor:
    """Inputs from multiples of (input, 1)."""
    kept = rows[rows[:, -1].abs() > 1e-9 * rows.abs().amax(dim=1)] if len(rows) else rows
    return kept[:, :-1] / kept[:, -1:]
