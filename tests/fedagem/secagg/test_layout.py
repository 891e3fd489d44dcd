"""Tensors in vectors: exact sums, refused values, and sums in which masks are left."""

import itertools

import numpy as np
import pytest

from fedagem.aggregation.ring import Accumulator, Encoding, OutOfRangeError
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.layout import Layout, Slot, short_encoding


def make_layout(members, bits):
    weights = Encoding.of(np.float32, 1024.0, members) if bits == 64 else short_encoding(8.0, members)
    return Layout(
        [
            Slot("w", (3, 5), np.float32, weights, bits),
            Slot("steps", (), np.int64, Encoding.of(np.int64, 1.0, members)),
            Slot("loss", (), np.float64, Encoding.of(np.float64, 2.0**20, members), counts="always"),
        ]
    )


def added(vectors):
    return {bits: np.sum([one[bits] for one in vectors], axis=0, dtype=vectors[0][bits].dtype) for bits in vectors[0]}


@pytest.mark.parametrize("members", [3, 4, 10, 16])
def test_means_of_64_bits_are_those_of_plain_sums(members):
    generator = np.random.default_rng(members)
    layout, reference = make_layout(members, 64), generator.standard_normal((3, 5)).astype(np.float32)
    plain = Accumulator((3, 5), np.float32, layout.slots[0].encoding, reference)
    vectors = []
    for _ in range(members):
        moved = reference + generator.standard_normal((3, 5)).astype(np.float32)
        plain.add(moved)
        given = {"w": moved, "steps": np.array(7), "loss": np.array(1.5)}
        vectors.append(layout.encode(given, 1, {"w": reference}))
    total = layout.decode(added(vectors), members)
    assert (total.contributors, total.weight) == (members, members)
    assert total.mean("w", members, reference).tobytes() == plain.decode(members).tobytes()
    assert total.mean("steps", members) == 7
    assert total.mean("loss", members) == 1.5


@pytest.mark.parametrize("members", [3, 4, 5, 10, 16])
def test_means_of_32_bits_are_off_by_half_a_step(members):
    generator = np.random.default_rng(members)
    layout, step = make_layout(members, 32), 8.0 / 2 ** (31 - (members - 1).bit_length())
    given = generator.uniform(-7.9, 7.9, (members, 3, 5)).astype(np.float32)
    vectors = [layout.encode({"w": one}, 1) for one in given]
    assert vectors[0][32].nbytes == (4 + 15) * 4
    mean = layout.decode(added(vectors), members).mean("w", members)
    exact = given.astype(np.float64).mean(axis=0)
    assert np.abs(mean - exact).max() <= step / 2 + np.abs(exact).max() * 2**-24
    if members == 16:
        assert step / 2 <= 3.0e-8


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("members", [3, 4, 7, 8, 16])
def test_the_largest_values_of_all_members_at_once_add_up(members, sign):
    layout = make_layout(members, 32)
    encoding = layout.slots[0].encoding
    largest = sign * encoding.limit * 2.0**-encoding.bits
    vectors = [layout.encode({"w": np.full((3, 5), largest)}, 1) for _ in range(members)]
    total = layout.decode(added(vectors), members)
    assert (total.sums["w"] == sign * members * encoding.limit).all()
    with pytest.raises(OutOfRangeError, match="tensor 'w' has the value"):
        layout.encode({"w": np.full((3, 5), sign * 8.0)}, 1)


def test_who_has_nothing_to_contribute_counts_for_its_metrics_only():
    layout = make_layout(3, 64)
    vectors = [
        layout.encode({"w": np.ones((3, 5), np.float32), "steps": np.array(1), "loss": np.array(3.0)}, weight)
        for weight in (0, 1, 1)
    ]
    total = layout.decode(added(vectors), 3)
    assert (total.contributors, total.weight) == (2, 2)
    assert total.mean("w", 2).tolist() == [[1.0] * 5] * 3
    assert total.mean("loss", 3) == 3.0


def test_weights_count():
    layout = make_layout(3, 64)
    vectors = [layout.encode({"w": np.full((3, 5), value, np.float32)}, weight) for value, weight in ((1, 3), (5, 1))]
    total = layout.decode(added([*vectors, layout.encode({}, 0)]), 3)
    assert (total.contributors, total.weight) == (2, 4)
    assert (total.mean("w", total.weight) == 2.0).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_left_over_masks_are_noticed(bits):
    layout = make_layout(3, 32)
    vectors = [layout.encode({"w": np.ones((3, 5))}, 1) for _ in range(3)]
    for place in itertools.chain(range(4)):
        total = added(vectors)
        total[bits][place] += 1
        with pytest.raises(ProtocolError, match=f"the masks of the {bits}-bit sum do not cancel"):
            layout.decode(total, 3)
    with pytest.raises(ProtocolError, match="the sum holds the vectors of 3 members instead of 4"):
        layout.decode(added(vectors), 4)
    total = added(vectors)
    total[32][10] = 2**31 - 1
    with pytest.raises(ProtocolError, match="the sum of 'w' is larger than 3 members can make it"):
        layout.decode(total, 3)
