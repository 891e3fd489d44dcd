"""Gradient refinement against the paper's formulas and the optimisation problem that the projection solves."""

import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedagem.learning.refinement import Reference, Refinement

RNG = torch.Generator().manual_seed(0)


def vectors(size=6):
    values = st.floats(-100, 100, width=32).map(lambda v: 0.0 if abs(v) < 1e-3 else v)
    return hnp.arrays(np.float32, size, elements=values).map(torch.from_numpy)


def refine(g, g_ref, **rule):
    result = g.clone()
    changed = Refinement(**rule)(result, Reference.of(g_ref), RNG)
    return result, bool(changed)


def slack(*tensors):
    """Rounding of float32 in products of these sizes."""
    return 1e-5 * math.prod(float(t.norm()) + 1e-6 for t in tensors)


@settings(max_examples=200, deadline=None)
@given(g=vectors(), g_ref=vectors(), other=vectors())
def test_projection_gives_the_closest_vector_that_does_not_conflict(g, g_ref, other):
    assume(float(g_ref.norm()) > 1e-2)
    refined, changed = refine(g, g_ref)
    assert float(refined.dot(g_ref)) >= -slack(g, g_ref)
    assert changed == (float(g.dot(g_ref)) < 0)
    if not changed:
        assert torch.equal(refined, g)
    # Any other vector without conflict is at least as far from g; `other` is made feasible by flipping it over.
    feasible = other if float(other.dot(g_ref)) >= 0 else -other
    assert float((refined - g).norm()) <= float((feasible - g).norm()) + 1e-5 * (1 + float(g.norm()))


@settings(max_examples=100, deadline=None)
@given(g=vectors(), g_ref=vectors())
def test_projection_is_the_papers_formula(g, g_ref):
    assume(float(g_ref.norm()) > 1e-2)
    precise, reference = g.double(), g_ref.double()
    dot = precise.dot(reference)
    expected = precise - (dot <= 0) * dot / reference.dot(reference) * reference
    torch.testing.assert_close(refine(g, g_ref)[0].double(), expected, rtol=1e-4, atol=1e-3)


def formula(how, g, g_ref):
    g, g_ref = g.double(), g_ref.double()
    projected = g - g.dot(g_ref) / g_ref.dot(g_ref) * g_ref
    return {
        "average": (g + g_ref) / 2,
        "rotate": g.norm() * (g + g_ref) / (g + g_ref).norm(),
        "project": projected,
        "project_and_scale": g.norm() * projected / projected.norm(),
    }[how]


RULES = ["average", "rotate", "project", "project_and_scale"]
CONFLICT = (torch.tensor([1.0, 2.0, -3.0]), torch.tensor([-2.0, 0.5, 1.0]))
HARMONY = (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 0.5, 1.0]))


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("when", ["conflict", "always"])
@pytest.mark.parametrize("pair", [CONFLICT, HARMONY], ids=["conflict", "harmony"])
def test_every_rule_is_the_papers_formula_when_it_applies(how, when, pair):
    g, g_ref = pair
    refined, changed = refine(g, g_ref, how=how, when=when)
    applies = when == "always" or pair is CONFLICT
    assert changed == applies
    torch.testing.assert_close(refined.double(), formula(how, g, g_ref) if applies else g.double())


@pytest.mark.parametrize("how", ["rotate", "project_and_scale"])
def test_a_gradient_that_vanishes_stays_zero(how):
    g = torch.tensor([1.0, -2.0])
    refined, _ = refine(g, -g, how=how)
    assert refined.tolist() == [0, 0]


def test_the_reference_itself_is_never_changed():
    for how in RULES:
        g, g_ref = CONFLICT
        kept = g_ref.clone()
        refine(g, g_ref, how=how, when="always")
        assert torch.equal(g_ref, kept)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_rate_is_the_share_of_conflicts_that_are_refined(rate):
    g, g_ref = CONFLICT
    rule, reference = Refinement(rate=rate), Reference.of(g_ref)
    generator = torch.Generator().manual_seed(1)
    refined = sum(float(rule(g.clone(), reference, generator)) for _ in range(2000))
    assert abs(refined / 2000 - rate) < 0.04 * (0 < rate < 1) + 1e-9


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("when", ["conflict", "always"])
@pytest.mark.parametrize("size", [0.0, 1e-25, 1e25], ids=["zero", "tiny", "huge"])
def test_a_reference_without_a_usable_norm_changes_nothing(size, how, when):
    """A zero one says nothing; the square of the others is no number that can be divided by."""
    g, g_ref = CONFLICT
    refined, changed = refine(g, g_ref * size, how=how, when=when)
    assert not changed
    assert torch.equal(refined, g)


@pytest.mark.parametrize("scale", [1e-19, 1e-21, 1e-25])
def test_a_reference_too_small_to_divide_by_never_spoils_the_gradient(scale):
    """Its square is not a normal float32: it either works precisely or counts as zero."""
    g, g_ref = CONFLICT
    refined, changed = refine(g, g_ref * scale)
    torch.testing.assert_close(refined.double(), formula("project", g, g_ref) if changed else g.double())
