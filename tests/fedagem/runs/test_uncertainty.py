"""Intervals over draws of frames and of runs."""

import numpy as np
import pytest

from fedagem.runs.uncertainty import drawn_levels, drawn_mean, interval


def test_levels_of_draws_are_those_of_the_curve_draw_by_draw():
    draws = {number: (0.1 * number, 0.2 * number) for number in range(1, 8)}
    levels = drawn_levels("map_50/city", draws, shift=4)
    assert levels["before"] == pytest.approx([0.3, 0.6]), "rounds 2, 3 and 4"
    assert levels["after"] == pytest.approx([0.6, 1.2]), "rounds 5, 6 and 7"
    assert levels["lost"] == pytest.approx([-0.3, -0.6])
    assert drawn_levels("map_50/city", draws, shift=None).keys() == {"end"}


def test_an_interval_holds_95_percent():
    low, high = interval(np.arange(1001) / 1000)
    assert low == pytest.approx(0.025)
    assert high == pytest.approx(0.975)


def test_one_run_keeps_its_draws():
    drawn = np.random.default_rng(0).random(1000)
    assert np.array_equal(drawn_mean([drawn]), drawn)


def test_several_runs_add_their_own_spread():
    """The deviation of the mean of runs that differ by chance alone, which the frames do not show."""
    values = np.random.default_rng(1).normal(size=8)
    runs = [np.full(20_000, value) for value in values]
    assert drawn_mean(runs).std() == pytest.approx(values.std() / np.sqrt(8), rel=0.03)
    assert drawn_mean(runs).mean() == pytest.approx(values.mean(), abs=0.02)


def test_what_paired_runs_share_is_not_in_their_difference():
    """Two methods whose runs differ from seed to seed in the same way, and by a constant from each other."""
    shared = np.random.default_rng(2).normal(size=(5, 1000))
    difference = drawn_mean(list(shared + 0.25)) - drawn_mean(list(shared))
    assert interval(difference) == pytest.approx((0.25, 0.25))
