"""Robust means against numpy's own functions and against their definitions."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean

from fedagem.aggregation.robust import clipping_factors, count_left_out, median, scaled_mean, trimmed_mean
from fedagem.aggregation.spool import Spool
from fedagem.errors import FedAGemError

sizes = st.tuples(st.integers(1, 12), st.integers(1, 20), st.integers(0, 2**31))


def drawn(size):
    clients, width, seed = size
    return np.random.default_rng(seed).standard_normal((clients, width)) * 10


@settings(max_examples=50, deadline=None)
@given(sizes)
def test_the_median_is_that_of_numpy(size):
    values = drawn(size)
    assert np.array_equal(median(values), np.median(values, axis=0))


@settings(max_examples=50, deadline=None)
@given(sizes, st.sampled_from([0.1, 0.2, 0.25, 0.4]))
def test_the_trimmed_mean_is_that_of_the_values_in_the_middle(size, trim):
    values = drawn(size)
    left_out = count_left_out(len(values), trim)
    expected = trim_mean(values, (left_out + 0.5) / len(values), axis=0)
    np.testing.assert_allclose(trimmed_mean(values, trim), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("clients", "trim", "left_out"),
    [(1, 0.2, 0), (2, 0.2, 0), (3, 0.2, 1), (5, 0.2, 1), (6, 0.2, 2), (10, 0.2, 2), (30, 0.1, 3), (5, 0.49, 2)],
)
def test_the_share_is_rounded_up_and_somebody_always_remains(clients, trim, left_out):
    assert count_left_out(clients, trim) == left_out


@settings(max_examples=50, deadline=None)
@given(sizes, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_bits(size, shuffler):
    values = drawn(size)
    order = list(range(len(values)))
    shuffler.shuffle(order)
    assert np.array_equal(median(values), median(values[order]))
    assert np.array_equal(trimmed_mean(values, 0.2), trimmed_mean(values[order], 0.2))


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 15), st.integers(0, 2**31), st.floats(-1e30, 1e30))
def test_a_minority_moves_no_coordinate_beyond_the_others(clients, seed, lie):
    """Up to as many liars as are left out at either end: what comes out lies between values of honest clients."""
    values = np.random.default_rng(seed).standard_normal((clients, 8))
    liars = (clients - 1) // 2
    honest, values[:liars] = values[liars:].copy(), lie
    assert (honest.min(axis=0) <= median(values)).all()
    assert (median(values) <= honest.max(axis=0)).all()
    liars = count_left_out(clients, 0.2)
    honest = np.random.default_rng(seed).standard_normal((clients, 8))
    values = honest.copy()
    values[:liars] = lie
    assert (honest[liars:].min(axis=0) - 1e-9 <= trimmed_mean(values, 0.2)).all()
    assert (trimmed_mean(values, 0.2) <= honest[liars:].max(axis=0) + 1e-9).all()


def test_contributions_are_shortened_to_the_median_length_and_no_direction_changes():
    lengths = [1.0, 2.0, 3.0, 100.0, 0.0]
    factors = clipping_factors(lengths, 1.0)
    assert factors == [1.0, 1.0, 2 / 3, 0.02, 1.0]
    assert clipping_factors(lengths, 2.0) == [1.0, 1.0, 1.0, 0.04, 1.0]
    values = np.arange(15.0).reshape(5, 3)
    np.testing.assert_allclose(scaled_mean(values, factors), (values * np.array(factors)[:, None]).mean(axis=0))


def test_rows_come_back_whole_or_in_parts_and_a_free_place_is_used_again(tmp_path):
    spool = Spool(tmp_path, 24)
    spool.put("b", [np.arange(4, dtype=np.float32), np.array(7)])
    spool.put("a", [np.zeros(4, np.float32), np.array(8)])
    spool.drop("b")
    spool.put("c", [np.full(4, 3, np.float32), np.array(9)])
    assert spool.keys() == ["a", "c"]
    part, count = np.empty(2, np.float32), np.empty(1, np.int64)
    spool.read("c", 4, part)
    spool.read("a", 16, count)
    assert part.tolist() == [3, 3]
    assert count.tolist() == [8]
    assert os.fstat(spool._file.fileno()).st_size == 48
    assert not list(tmp_path.iterdir()), "the file has no name, so nothing is left if the process is killed"
    spool.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FedAGemError, match=r"file cannot hold the results of a stage: File exists"):
        Spool(tmp_path / "file", 8)
