"""All keys of the protocol: what each is derived from, and under which label.

A member draws one root for a setup from the operating system. Every sum has keys of its own, which say nothing about
the root or about one another, so that a key that is opened because its owner is missing exposes this one sum. Nothing
here depends on the plan's seed, which everybody knows.
"""

import hashlib
import os
from dataclasses import dataclass

import msgpack
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

ROOT_BYTES = 32
SECRET_BYTES = 16
"""What is shared among the members: as long as an element of the field that shares are computed in."""
_WIDE = 32
"""Bytes of which a coefficient below 2^128 + 51 is made; what is left of a bias is below 2^-127."""

Label = str | bytes | int


@dataclass(frozen=True)
class SumName:
    """Which sum: no key is used for two of them."""

    setup: bytes
    round: int
    stage: str

    @property
    def label(self) -> tuple[bytes, int, str]:
        """What goes into every key of the sum."""
        return self.setup, self.round, self.stage

    def __str__(self) -> str:
        return f"stage {self.stage} of round {self.round}"


def new_root() -> bytes:
    """A fresh root, from the operating system and nothing else."""
    return os.urandom(ROOT_BYTES)


def derive(secret: bytes, *label: Label, length: int = 32) -> bytes:
    """HKDF-SHA256; the label is encoded so that no two labels look the same."""
    return HKDF(SHA256(), length, salt=None, info=b"fedagem secagg 1" + msgpack.packb(list(label))).derive(secret)


def envelope_key(root: bytes, setup: bytes) -> X25519PrivateKey:
    """Opens what other members send this one."""
    return X25519PrivateKey.from_private_bytes(derive(root, "envelope", setup))


def signing_key(root: bytes, setup: bytes) -> Ed25519PrivateKey:
    """Signs all messages of a setup after the first, which the certificate's key signs."""
    return Ed25519PrivateKey.from_private_bytes(derive(root, "signing", setup))


def pair_secret(root: bytes, sum_: SumName) -> bytes:
    """What the sum's masks with other members come from; opened only if its owner's vector is missing."""
    return derive(root, "pair secret", *sum_.label, length=SECRET_BYTES)


def self_secret(root: bytes, sum_: SumName) -> bytes:
    """What the sum's own mask comes from; opened only if its owner's vector is there."""
    return derive(root, "self secret", *sum_.label, length=SECRET_BYTES)


def pair_key(secret: bytes, sum_: SumName) -> X25519PrivateKey:
    """The key by which two members agree on their common mask."""
    return X25519PrivateKey.from_private_bytes(derive(secret, "pair key", *sum_.label))


def commitment(secret: bytes, owner: str, sum_: SumName) -> bytes:
    """Says nothing about the self secret, but shows later whether it was put together correctly."""
    return hashlib.sha256(derive(secret, "commitment", owner, *sum_.label)).digest()


def self_seed(secret: bytes, owner: str, sum_: SumName) -> bytes:
    """The seed of a member's own mask."""
    return derive(secret, "self", owner, *sum_.label)


def pair_seed(mine: X25519PrivateKey, theirs: bytes, first: str, second: str, sum_: SumName) -> bytes:
    """The seed of the mask that the first of two members adds and the second subtracts."""
    agreed = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    return derive(agreed, "pair", first, second, *sum_.label)


def mask_key(seed: bytes, bits: int) -> bytes:
    """The cipher's key for one ring; each is used for one mask."""
    return derive(seed, "mask", bits)


def box_key(mine: X25519PrivateKey, theirs: bytes, sender: str, recipient: str, setup: bytes) -> bytes:
    """The key of the one envelope that goes from a sender to a recipient in a setup."""
    agreed = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    return derive(agreed, "box", sender, recipient, setup)


def coefficients(root: bytes, kind: str, sum_: SumName, count: int) -> list[int]:
    """The random part of the polynomial that a secret is shared with: a restarted member deals the same shares."""
    return [
        int.from_bytes(derive(root, "coefficient", kind, place, *sum_.label, length=_WIDE), "big")
        for place in range(count)
    ]
