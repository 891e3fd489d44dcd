"""Any t shares give the secret, and t - 1 say nothing about it."""

import itertools
import os

import pytest

from fedagem.secagg import sharing
from fedagem.secagg.sharing import PRIME, combine, factors, split


def random_numbers(count):
    return [int.from_bytes(os.urandom(32), "big") for _ in range(count)]


@pytest.mark.parametrize("secret", [bytes(16), b"\xff" * 16, bytes(range(16))])
@pytest.mark.parametrize(("members", "helpers"), [(2, 2), (3, 2), (5, 3), (5, 5), (7, 5)])
def test_every_choice_of_enough_shares_gives_the_secret(secret, members, helpers):
    shares = split(secret, random_numbers(helpers - 1), members)
    for chosen in itertools.permutations(range(members), helpers):
        weights = factors([place + 1 for place in chosen])
        assert combine([shares[place] for place in chosen], weights, 16) == secret


def test_fewer_shares_fit_every_secret_equally_well():
    """For any other secret there is a polynomial through the same t - 1 shares: they say nothing."""
    shares = split(b"a secret secret!", random_numbers(2), 5)
    points = {place + 1: int.from_bytes(shares[place], "big") for place in (1, 3)}
    for other in (0, 1, 2**128 - 1, 12345):
        places = [0, *points]
        values = [other, *points.values()]
        third = sum(value * lagrange(places, place, 1) for place, value in zip(places, values, strict=True)) % PRIME
        found = combine(
            [third.to_bytes(17, "big"), *(value.to_bytes(17, "big") for value in points.values())],
            factors([1, 2, 4]),
            16,
        )
        assert found == other.to_bytes(16, "big")


def lagrange(places, place, at):
    result = 1
    for other in places:
        if other != place:
            result = result * (at - other) * pow(place - other, -1, PRIME) % PRIME
    return result


def test_the_prime_is_one():
    """Miller and Rabin's test with the first primes, and Fermat's little theorem."""
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        power = pow(base, odd, PRIME)
        assert power in (1, PRIME - 1) or PRIME - 1 in {pow(power, 2**twice, PRIME) for twice in range(twos)}
    assert PRIME.bit_length() <= sharing.SHARE_BYTES * 8


def test_a_value_that_is_no_secret_is_not_taken_for_one():
    too_large = (2**128 + 7).to_bytes(17, "big")
    assert combine([too_large], factors([1]), 16) is None
