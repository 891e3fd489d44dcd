"""A masked vector looks like noise; and what these tests are worth: each catches a way to get masks wrong.

The wrong ways are those of other implementations: one number for all elements, a seed of 32 bits, keys that serve two
sums, and no mask of one's own.
"""

import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from scipy.stats import chisquare

from fedagem.secagg import masks, seeds
from fedagem.secagg.masks import RINGS, apply_masks
from fedagem.secagg.member import Member, pair_mask
from tests.support.secagg_parties import Parties

SIZE = 2**15
SUMS = [(0, "buffer_gradient"), (0, "train")]


def inputs_like(kind, bits):
    if kind == "zeros":
        return np.zeros(SIZE, RINGS[bits])
    if kind == "constant":
        return np.full(SIZE, 12345, RINGS[bits])
    update = np.random.default_rng(1).standard_normal(SIZE) * 2.0**20
    return update.astype(np.int64).view(np.uint64).astype(RINGS[bits])


def assert_uniform(vector):
    """Bytes at every place of a number, and single bits, come equally often."""
    table = vector.view(np.uint8).reshape(len(vector), -1)
    for place in range(table.shape[1]):
        assert 1e-6 < chisquare(np.bincount(table[:, place], minlength=256)).pvalue < 1 - 1e-6, place
    ones = np.unpackbits(table, axis=1).sum(axis=0)
    for count in ones:
        assert chisquare([count, len(vector) - count]).pvalue > 1e-6
    assert len(np.unique(vector)) > 0.99 * len(vector)


def check_masked_vectors_are_uniform(folder):
    parties = Parties(folder, 3, 3, SUMS)
    for kind in ("zeros", "constant", "an update"):
        parties.set_up()
        given = {bits: inputs_like(kind, bits) for bits in RINGS}
        for vector in parties.mask("m0", given)[1].values():
            assert_uniform(vector)


def check_two_sums_share_nothing(folder):
    parties = Parties(folder, 3, 3, SUMS)
    given = {bits: inputs_like("an update", bits) for bits in RINGS}
    first, second = (parties.mask("m0", given, at)[1] for at in SUMS)
    for bits in RINGS:
        assert_uniform(first[bits] - second[bits])


def check_masks_of_many_keys_are_all_different(folder):
    """With 32 bits of seed, ten pairs of these would be the same."""
    del folder
    begun = set()
    for _ in range(300_000):
        mask = np.zeros(2, RINGS[64])
        apply_masks_quickly(mask, os.urandom(32))
        begun.add(mask.tobytes())
    assert len(begun) == 300_000


def apply_masks_quickly(vector, key):
    """The beginning of a mask, without the buffers of a long one."""
    masks._keystream(key).update_into(bytes(vector.nbytes), vector.view(np.uint8))


def check_a_late_vector_stays_hidden(folder):
    """Its owner was taken for missing, so that its masks with the others are known by now."""
    parties = Parties(folder, 4, 3, SUMS)
    given = {bits: inputs_like("an update", bits) for bits in RINGS}
    inputs = dict.fromkeys(parties.names, given)
    survivors = parties.names[:3]
    collected = parties.collect(inputs, survivors, at=(0, "train"))
    parties.agree(collected, survivors)
    for name in survivors:
        collected.take_opening(name, parties.opening(collected, name))
    secret = collected._secret("m3", survived=False)
    assert secret is not None
    _, late = parties.mask("m3", given)
    place, sum_ = parties.setup.bulletin.sum_at(0, "train")
    key = seeds.pair_key(secret, sum_)
    known = [pair_mask(parties.setup.bulletin, place, sum_, "m3", key, peer) for peer in survivors]
    for bits, vector in late.items():
        apply_masks(vector, [(seeds.mask_key(seed, bits), -sign) for seed, sign in known])
        assert (vector != given[bits]).mean() > 0.99
        assert_uniform(vector)


CHECKS = [
    check_masked_vectors_are_uniform,
    check_two_sums_share_nothing,
    check_masks_of_many_keys_are_all_different,
    check_a_late_vector_stays_hidden,
]


@pytest.mark.parametrize("check", CHECKS)
def test_masks_hide(check, tmp_path):
    check(tmp_path)


class OneNumber:
    """A keystream that repeats one number, as OpenFL's own secure aggregation masks."""

    def __init__(self, key):
        self._word = key[:8]

    def update_into(self, data, out):
        out[:] = self._word * (len(data) // 8) + self._word[: len(data) % 8]


def scalar_mask(monkeypatch):
    monkeypatch.setattr(masks, "_keystream", OneNumber)


def short_seed(monkeypatch):
    def folded(key):
        words = np.frombuffer(key, np.uint32)
        seed = np.bitwise_xor.reduce(words).tobytes()
        return Cipher(ChaCha20(seed * 8, bytes(16)), mode=None).encryptor()

    monkeypatch.setattr(masks, "_keystream", folded)


def reused_key(monkeypatch):
    monkeypatch.setattr(seeds.SumName, "label", property(lambda self: (self.setup, 0, "")))


def no_self_mask(monkeypatch):
    every = Member._masks
    monkeypatch.setattr(Member, "_masks", lambda self, *given: every(self, *given)[1:])


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (scalar_mask, check_masked_vectors_are_uniform),
        (short_seed, check_masks_of_many_keys_are_all_different),
        (reused_key, check_two_sums_share_nothing),
        (no_self_mask, check_a_late_vector_stays_hidden),
    ],
)
def test_wrong_masks_are_caught(spoil, check, tmp_path, monkeypatch):
    spoil(monkeypatch)
    with pytest.raises(AssertionError):
        check(tmp_path)
