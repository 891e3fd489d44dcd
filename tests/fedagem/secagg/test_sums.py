"""The sum of masked vectors is the sum of the vectors, whoever is missing and whoever helps."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedagem.secagg.errors import ProtocolError
from tests.support.secagg_parties import Parties, plain_sum, random_inputs

COMBINATIONS = [(members, helpers) for members in (3, 4, 5) for helpers in range(2, members + 1)]


def assert_equal(opened, wanted):
    assert opened is not None
    for bits, vector in wanted.items():
        np.testing.assert_array_equal(opened[bits], vector)


def survivor_sets(parties, helpers):
    for size in range(max(helpers, 3), len(parties.names) + 1):
        yield from itertools.combinations(parties.names, size)


@pytest.mark.parametrize(("members", "helpers"), COMBINATIONS)
def test_every_pattern_of_survivors_and_helpers_gives_the_exact_sum(tmp_path, members, helpers):
    sums = [(place, "train") for place in range(40)]
    parties = Parties(tmp_path, members, helpers, sums, rekey_every=100)
    inputs = random_inputs(parties.names)
    for place, survivors in enumerate(survivor_sets(parties, helpers)):
        collected = parties.collect(inputs, survivors, at=(place, "train"))
        if collected.missing:
            parties.agree(collected, survivors)
        openings = {name: parties.opening(collected, name) for name in survivors}
        masked = {bits: vector.copy() for bits, vector in collected.total.items()}
        for some in itertools.combinations(survivors, helpers):
            collected.openings, collected.total = {}, {bits: vector.copy() for bits, vector in masked.items()}
            for name in some:
                collected.take_opening(name, openings[name])
            assert_equal(collected.unmask(), plain_sum(inputs, survivors))


def test_fewer_than_the_threshold_open_nothing(tmp_path):
    parties = Parties(tmp_path, 5, 4)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    before = {bits: vector.copy() for bits, vector in collected.total.items()}
    assert parties.open(collected, parties.names[:3]) is None
    assert_equal(collected.total, before)


def test_those_who_dealt_no_shares_are_left_out_of_the_masks(tmp_path):
    parties = Parties(tmp_path, 5, 3)
    inputs = random_inputs(parties.names)
    parties.set_up(with_keys=parties.names[:4], dealing=parties.names[1:4])
    collected = parties.collect(inputs, parties.names[1:4])
    assert not collected.missing
    assert_equal(parties.open(collected, parties.names[1:4]), plain_sum(inputs, parties.names[1:4]))


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6),
    st.integers(3, 5),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None)
def test_any_numbers_are_summed_exactly(numbers, members, seed):
    with tempfile.TemporaryDirectory() as folder:
        parties = Parties(Path(folder), members, 3)
        generator = np.random.default_rng(seed)
        inputs = {
            name: {
                64: generator.permutation(np.array(numbers, "<u8")),
                32: generator.permutation(np.array(numbers, "<u8")).astype("<u4"),
            }
            for name in parties.names
        }
        survivors = parties.names[: max(3, members - 1)]
        collected = parties.collect(inputs, survivors)
        if collected.missing:
            parties.agree(collected, survivors)
        assert_equal(parties.open(collected, survivors), plain_sum(inputs, survivors))


def test_two_runs_mask_differently_and_give_the_same(tmp_path):
    seen, opened = [], []
    for run in ("first", "second"):
        parties = Parties(tmp_path / run, 3, 3)
        inputs = random_inputs(parties.names)
        seen.append(parties.mask("m0", inputs["m0"])[1][64].tobytes())
        opened.append(parties.open(parties.collect(inputs, parties.names), parties.names))
    assert seen[0] != seen[1]
    assert_equal(opened[0], opened[1])


@pytest.mark.parametrize("fault", ["wrong", "swapped", "of somebody else"])
def test_wrong_shares_are_found_named_and_worked_around(tmp_path, fault):
    parties = Parties(tmp_path, 5, 3)
    inputs = random_inputs(parties.names)
    collected = parties.collect(inputs, parties.names)
    for name in parties.names:
        collected.take_opening(name, parties.opening(collected, name))
    honest = collected.openings["m0"].self_shares
    values = [share for _, share in honest]
    wrong = {
        "wrong": [bytes(17), *values[1:]],
        "swapped": [values[1], values[0], *values[2:]],
        "of somebody else": [share for _, share in collected.openings["m1"].self_shares],
    }[fault]
    shares = tuple((peer, share) for (peer, _), share in zip(honest, wrong, strict=True))
    object.__setattr__(collected.openings["m0"], "self_shares", shares)
    assert_equal(collected.unmask(), plain_sum(inputs, parties.names))
    assert collected.liars == {"m0"}


def test_without_enough_good_shares_nothing_is_unmasked(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    parties.open(collected, parties.names[:2])
    signed = parties.opening(collected, "m2")
    collected.take_opening("m2", signed)
    object.__setattr__(
        collected.openings["m2"], "self_shares", tuple((peer, bytes(17)) for peer in collected.survivors)
    )
    assert collected.unmask() is None


def test_missing_and_duplicate_shares_are_refused(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    other = parties.collect(random_inputs(parties.names), parties.names[:3])
    with pytest.raises(ProtocolError, match="has opened something else than what was asked for"):
        other.take_opening("m0", parties.opening(collected, "m0"))
    with pytest.raises(ProtocolError, match="has sent its vector for stage train of round 0 already"):
        collected.add("m0", *parties.mask("m0", random_inputs(parties.names)["m0"]))
