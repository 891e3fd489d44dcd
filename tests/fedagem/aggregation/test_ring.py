"""Fixed point: how exact sums are, that order is nothing to them, and that nothing out of range gets in."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedagem.aggregation.ring import (
    HEAVIEST,
    Accumulator,
    Encoding,
    OutOfRangeError,
    add,
    decode,
    encode,
    model_bound,
)

BOUND = 1024.0
WITHIN = st.floats(-BOUND, BOUND, allow_subnormal=False)


def reals(contributions, bound=BOUND, heaviest=1):
    return Encoding.of(np.float64, bound, contributions, heaviest)


def mean_of(contributions, encoding, dtype=np.float64, weights=None, reference=None):
    weights = weights or [1] * len(contributions)
    total = np.zeros(contributions[0].shape, np.int64)
    for values, weight in zip(contributions, weights, strict=True):
        add(total, encode(values, encoding, reference, weight))
    return decode(total, encoding, dtype, sum(weights), reference)


def exact_mean(values, weights=None):
    weights = weights or [1] * len(values)
    return sum(w * Fraction(float(value)) for w, value in zip(weights, values, strict=True)) / sum(weights)


@settings(max_examples=300, deadline=None)
@given(values=st.lists(WITHIN, min_size=1, max_size=40), spare=st.integers(0, 983))
def test_a_mean_is_off_by_at_most_1e_13(values, spare):
    mean = mean_of([np.array([value]) for value in values], reals(len(values) + spare))
    assert abs(Fraction(float(mean[0])) - exact_mean(values)) <= Fraction(1, 10**13)


@pytest.mark.parametrize("contributions", [1, 2, 3, 10, 60, 1023, 1024])
@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-3, 1, 1000])
def test_a_mean_of_the_same_values_is_no_worse(contributions, scale):
    """Roundings all to the same side do not cancel."""
    values = np.random.default_rng(contributions).uniform(-scale, scale, 200)
    mean = mean_of([values] * contributions, reals(contributions))
    assert np.abs(mean - values).max() <= 1e-13


@pytest.mark.parametrize("contributions", [1, 2, 7, 8, 512, 1000, 1024, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_all_may_send_the_largest_value_at_once(contributions, sign):
    encoding = reals(contributions)
    largest = np.nextafter(BOUND, 0) if contributions == 1024 else BOUND
    total = np.zeros(1, np.int64)
    encoded = encode(np.array([sign * largest]), encoding)
    exact = 0
    for _ in range(contributions):
        add(total, encoded)
        exact += int(encoded[0])
    assert int(total[0]) == exact, "no sum wraps around"
    assert decode(total, encoding, np.float64, contributions)[0] == sign * largest


@pytest.mark.parametrize("contributions", [1, 3, 16, 1024])
@pytest.mark.parametrize("value", [1024.1, -1025.0, 1e30, np.inf, -np.inf, np.nan])
def test_what_is_out_of_range_is_refused_with_its_value(contributions, value):
    values = np.zeros(100_000)
    values[99_000] = value
    with pytest.raises(OutOfRangeError, match=f"the value {value:g}".replace("+", r"\+")):
        encode(values, reals(contributions))


def test_a_difference_that_is_out_of_range_is_named_with_both_values():
    with pytest.raises(OutOfRangeError, match="the value 900, which was -200 before: more than ±1,024 cannot be added"):
        encode(np.array([900.0]), reals(3), reference=np.array([-200.0]))


def test_the_room_that_few_contributions_leave_is_for_large_changes():
    assert model_bound(1024) == model_bound(5000) == BOUND
    assert model_bound(8) == 131_072
    for contributions in (1, 8, 10, 100, 1024):
        encoding = reals(contributions, model_bound(contributions))
        values = np.random.default_rng(0).uniform(-1, 1, 1000)
        assert np.abs(mean_of([values] * contributions, encoding) - values).max() <= 1e-13


@given(
    values=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30),
    reference=st.integers(-(2**40), 2**40),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_whole_numbers_are_exact(values, reference, data):
    weights = data.draw(st.lists(st.integers(1, 1000), min_size=len(values), max_size=len(values)))
    encoding = Encoding.of(np.int64, BOUND, len(values), HEAVIEST)
    mean = mean_of([np.array(value) for value in values], encoding, np.int64, weights, np.array(reference))
    assert mean.shape == ()
    assert int(mean) == round(
        exact_mean([0] * len(values), weights)
        + Fraction(sum(w * v for w, v in zip(weights, values, strict=True)), sum(weights))
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64, np.bool_])
def test_every_kind_of_whole_number_keeps_its_type(dtype):
    given = [np.array([0, 1, 1], dtype), np.array([1, 1, 0], dtype), np.array([1, 1, 0], dtype)]
    mean = mean_of(given, Encoding.of(dtype, BOUND, 3), dtype, reference=np.array([1, 0, 0], dtype))
    assert mean.dtype == dtype
    assert mean.tolist() == [1, 1, 0]


def test_whole_numbers_whose_sum_might_wrap_around_are_refused():
    encoding = Encoding.of(np.int64, BOUND, 2)
    assert mean_of([np.array([2**62 - 1])] * 2, encoding, np.int64).tolist() == [2**62 - 1]
    for value in (2**62, -(2**62), 2**63 - 1, -(2**63)):
        with pytest.raises(OutOfRangeError):
            encode(np.array([value]), encoding)
    with pytest.raises(OutOfRangeError):
        encode(np.array([2**63 - 1]), encoding, reference=np.array([-(2**63)]))


@pytest.mark.parametrize("average", [1, 100, 600])
def test_weights_take_bits_as_it_is_said(average):
    contributions = 10
    draw = np.random.default_rng(average)
    weights = [int(w) for w in draw.integers(1, 2 * average + 1, contributions)]
    given = [draw.uniform(-1, 1, 300) for _ in range(contributions)]
    mean = mean_of(given, reals(contributions, heaviest=HEAVIEST), weights=weights)
    exact = [exact_mean([values[i] for values in given], weights) for i in range(300)]
    error = max(abs(Fraction(float(m)) - e) for m, e in zip(mean, exact, strict=True))
    assert error <= Fraction(1, 10**13) * HEAVIEST * contributions / sum(weights)


def test_the_heaviest_weight_at_the_bound_is_within_range():
    encoding = reals(100, heaviest=HEAVIEST)
    total = np.zeros(1, np.int64)
    for _ in range(100):
        add(total, encode(np.array([BOUND]), encoding, weight=HEAVIEST))
    assert decode(total, encoding, np.float64, 100 * HEAVIEST)[0] == BOUND
    with pytest.raises(OutOfRangeError):
        encode(np.array([BOUND * 1.01]), encoding, weight=HEAVIEST)


def test_the_order_of_contributions_is_nothing_to_a_sum():
    draw = np.random.default_rng(1)
    given = [(draw.normal(size=70_000) * 10.0 ** draw.integers(-8, 2)).astype(np.float32) for _ in range(12)]
    reference = draw.normal(size=70_000).astype(np.float32)
    outcomes = set()
    for seed in range(6):
        accumulator = Accumulator(reference.shape, np.float32, Encoding.of(np.float32, BOUND, 12), reference)
        for place in np.random.default_rng(seed).permutation(12):
            accumulator.add(given[place])
        outcomes.add(accumulator.decode(12).tobytes())
    assert len(outcomes) == 1


@pytest.mark.parametrize("place", [0, 32_767, 32_768, 99_999])
def test_a_contribution_that_is_refused_leaves_nothing(place):
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(2, 100_000))
    clean, disturbed = (Accumulator((100_000,), np.float64, reals(3)) for _ in range(2))
    for accumulator in (clean, disturbed):
        accumulator.add(first)
    bad = second.copy()
    bad[place] = 2000
    with pytest.raises(OutOfRangeError):
        disturbed.add(bad)
    disturbed.add(second)
    disturbed.take_back(second)
    assert disturbed.decode().tobytes() == clean.decode().tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (32_768,), (3, 20_000)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_shapes_and_types_stay(shape, dtype):
    values = np.asarray(np.random.default_rng(0).normal(size=shape), dtype)
    accumulator = Accumulator(shape, dtype, Encoding.of(dtype, BOUND, 2), np.ones(shape, dtype))
    accumulator.add(values)
    accumulator.add(values)
    mean = accumulator.decode(2)
    assert (mean.shape, mean.dtype) == (shape, dtype)
    np.testing.assert_allclose(mean, values, rtol=0, atol=1e-13 if dtype == np.float64 else 1e-12)


def test_the_accumulator_does_what_encode_add_and_decode_do():
    """Masked contributions of secure aggregation go through the functions, plain ones through the class."""
    draw = np.random.default_rng(2)
    given, reference = list(draw.normal(size=(4, 40_000))), draw.normal(size=40_000)
    encoding = reals(4)
    accumulator = Accumulator(reference.shape, np.float64, encoding, reference)
    for values in given:
        accumulator.add(values, 3)
    assert accumulator.decode(12).tobytes() == mean_of(given, encoding, weights=[3] * 4, reference=reference).tobytes()


def test_arrays_that_are_not_contiguous_count_in_their_order():
    values = np.arange(12.0).reshape(3, 4).T
    assert mean_of([values], reals(1)).tolist() == values.tolist()
