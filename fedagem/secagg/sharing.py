"""Shamir's secret sharing: any t of n members can put a secret together, fewer know nothing about it.

Shares are points of a polynomial modulo a prime just above 2^128, whose value at 0 is the secret. Nothing here notices
a wrong share: whoever combines them compares the secret with what its owner has committed to.
"""

from collections.abc import Sequence

PRIME = 2**128 + 51
SHARE_BYTES = 17


def split(secret: bytes, random: Sequence[int], members: int) -> list[bytes]:
    """A share for each member, numbered from 1; one more than the random coefficients are needed to combine them."""
    polynomial = [int.from_bytes(secret, "big"), *(coefficient % PRIME for coefficient in random)]
    shares = []
    for place in range(1, members + 1):
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * place + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "big"))
    return shares


def factors(places: Sequence[int]) -> list[int]:
    """What the shares of these places are multiplied by; the same for all secrets that they hold."""
    result = []
    for place in places:
        above, below = 1, 1
        for other in places:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        result.append(above * pow(below, -1, PRIME) % PRIME)
    return result


def combine(shares: Sequence[bytes], weights: Sequence[int], length: int) -> bytes | None:
    """The secret, given the factors of the shares' places; None if it cannot be one, because a share is wrong."""
    value = sum(int.from_bytes(share, "big") * weight for share, weight in zip(shares, weights, strict=True)) % PRIME
    return value.to_bytes(length, "big") if value < 2 ** (8 * length) else None
