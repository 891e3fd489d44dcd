"""Subspaces of inputs against plain singular value decompositions in double precision."""

import pytest
import torch

from fedagem.learning.subspace import Inputs, grow, remove


def matrix(shape, seed, decay=0.7):
    """Singular values that fall like powers of `decay`, in random directions."""
    generator = torch.Generator().manual_seed(seed)
    (rows, columns), size = shape, min(shape)
    left = torch.linalg.qr(torch.randn(rows, size, generator=generator, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(columns, size, generator=generator, dtype=torch.float64)).Q
    return ((left * decay ** torch.arange(size)) @ right.T).float()


def inputs_of(r, parts=3):
    inputs = Inputs(len(r))
    for part in r.chunk(parts, dim=1):
        inputs.add(part)
    return inputs


def nothing(rows):
    return torch.zeros(rows, 0)


def rank_by_formula(r, basis, threshold):
    """The smallest r with (||R||^2 - ||R^||^2 + sum of s_i^2) / ||R||^2 >= e, by trying one after the other."""
    r, u = r.double(), basis.double()
    outside = r - u @ (u.T @ r)
    squares = torch.linalg.svdvals(outside).square()
    total = r.square().sum()
    for rank in range(len(squares) + 1):
        if (total - outside.square().sum() + squares[:rank].sum()) / total >= threshold:
            return rank
    return len(squares)


def assert_orthonormal(basis):
    gram = basis.double().T @ basis.double()
    assert (gram - torch.eye(basis.shape[1])).abs().max() < 1e-6


@pytest.mark.parametrize("shape", [(30, 12), (12, 30), (20, 20), (40, 300)])
@pytest.mark.parametrize("threshold", [0.3, 0.9, 0.965, 0.9999])
def test_as_few_directions_as_reach_the_threshold(shape, threshold):
    first, second = matrix(shape, 1), matrix(shape, 2)
    basis = grow(nothing(shape[0]), inputs_of(first), threshold)
    assert basis.shape == (shape[0], rank_by_formula(first, nothing(shape[0]), threshold))
    left = torch.linalg.svd(first.double(), full_matrices=False).U[:, : basis.shape[1]]
    torch.testing.assert_close(basis.double() @ basis.double().T, left @ left.T, atol=1e-5, rtol=0)
    grown = grow(basis, inputs_of(second), threshold)
    assert grown.shape[1] == basis.shape[1] + rank_by_formula(second, basis, threshold)
    assert torch.equal(grown[:, : basis.shape[1]], basis), "what is protected stays so"
    assert_orthonormal(grown)
    held = (grown.double().T @ second.double()).square().sum() / second.double().square().sum()
    assert held >= threshold - 1e-6


def test_it_does_not_matter_in_how_many_parts_the_inputs_come():
    r = matrix((20, 33), seed=3)
    one, many = (grow(nothing(20), inputs_of(r, parts), 0.99) for parts in (1, 11))
    torch.testing.assert_close(one @ one.T, many @ many.T, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
@pytest.mark.parametrize("threshold", [0.0, 0.9, 1.0])
def test_the_same_inputs_again_add_nothing(shape, threshold):
    r = matrix(shape, 4)
    basis = grow(nothing(shape[0]), inputs_of(r), threshold)
    assert grow(basis, inputs_of(r), threshold) is basis
    assert (basis.shape[1] == 0) == (threshold == 0)


def test_there_are_never_more_directions_than_inputs():
    basis = nothing(6)
    for seed in range(5):
        before = basis.shape[1]
        basis = grow(basis, inputs_of(torch.randn(6, 50, generator=torch.Generator().manual_seed(seed))), 1.0)
        assert before <= basis.shape[1] <= 6
        assert_orthonormal(basis)
    assert basis.shape[1] == 6


def test_directions_of_very_different_length_are_orthonormal():
    """The smaller Gram matrix squares what is small; at a threshold of 1 everything above rounding errors counts."""
    r = matrix((60, 25), seed=5, decay=0.6)
    basis = grow(nothing(60), inputs_of(r), 1.0)
    assert basis.shape[1] >= 24
    assert_orthonormal(basis)


@pytest.mark.parametrize("r", [torch.zeros(5, 8), torch.zeros(5, 0), torch.zeros(5, 2)])
def test_nothing_seen_is_nothing_to_protect(r):
    assert grow(nothing(5), inputs_of(r, 1), 1.0).shape == (5, 0)
    assert grow(nothing(5), Inputs(5), 1.0).shape == (5, 0)


@pytest.mark.parametrize("with_bias", [False, True])
def test_an_update_loses_what_lies_in_the_subspace(with_bias):
    generator = torch.Generator().manual_seed(6)
    whole = torch.randn(4, 9, generator=generator)
    basis = grow(nothing(9), inputs_of(matrix((9, 5), seed=7)), 0.9)
    u = basis.double()
    expected = whole.double() - whole.double() @ u @ u.T
    weight, bias = (whole[:, :-1].clone(), whole[:, -1].clone()) if with_bias else (whole.clone(), None)
    remove(basis, weight, bias)
    left = torch.cat([weight, bias.unsqueeze(1)], dim=1) if bias is not None else weight
    torch.testing.assert_close(left.double(), expected, atol=1e-6, rtol=1e-5)
    assert (left @ basis).norm() <= 1e-5 * whole.norm()
