"""The parties of secure aggregation in one process: members with folders of their own, and an aggregator."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedagem.secagg.combiner import MaskedSum, Setup
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.masks import RINGS, Vector
from fedagem.secagg.member import Evidence, Material, Member
from fedagem.secagg.messages import Certified, Several
from fedagem.secagg.settings import SecureAggregation

FEDERATION = "federation"
EVIDENCE = Evidence(b"model", 0, b"shown")


@dataclass
class LocalKeys:
    """Stands for the certificates of all members: signs as each of them, and knows all of them."""

    keys: dict[str, Ed25519PrivateKey] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)

    def signer(self, name: str) -> "LocalSigner":
        return LocalSigner(self.keys.setdefault(name, Ed25519PrivateKey.generate()))

    def verify(self, name: str, certified: Certified) -> None:
        try:
            self.keys[name].public_key().verify(certified.signature, certified.payload)
        except InvalidSignature as problem:
            raise ProtocolError(f"the keys of {name!r} are not signed by its certificate") from problem


@dataclass
class LocalSigner:
    key: Ed25519PrivateKey

    def sign(self, payload: bytes) -> Certified:
        return Certified(payload, b"", self.key.sign(payload))


def settings_for(members: int, helpers: int, **others: Any) -> SecureAggregation:
    """Settings with which so many helpers open a sum; also fewer than a plan may choose."""
    return SecureAggregation().model_copy(update={"threshold": (helpers - 0.5) / members, **others})


class Parties:
    """Members and an aggregator that does as it should; tests reach in to make it do something else."""

    def __init__(
        self,
        folder: Path,
        members: int,
        helpers: int,
        sums: Iterable[tuple[int, str]] = ((0, "train"),),
        **others: Any,
    ) -> None:
        self.names = [f"m{number}" for number in range(members)]
        self.settings = settings_for(members, helpers, **others)
        self.local = LocalKeys()
        self.folder = folder
        self.members = {name: self.member(name) for name in self.names}
        self.sums = list(sums)
        self.set_up()

    def member(self, name: str) -> Member:
        """A member as it starts, or starts again after a kill."""
        return Member(
            name, FEDERATION, self.settings, self.local.signer(name), self.local, self.folder / name / "secagg"
        )

    def restart(self, name: str) -> None:
        self.members[name] = self.member(name)

    def set_up(self, with_keys: Sequence[str] | None = None, dealing: Sequence[str] | None = None) -> Setup:
        self.setup = Setup(FEDERATION, self.names, self.sums, self.settings, self.local)
        call = self.setup.call.encode()
        for name in with_keys or self.names:
            self.setup.take_keys(name, self.members[name].join(call))
        bulletin = self.setup.bulletin.encoded
        for name in dealing or with_keys or self.names:
            self.setup.take_shares(name, self.members[name].deal(call, bulletin))
        return self.setup

    def material(self, name: str, setup: Setup | None = None) -> Material:
        chosen = setup or self.setup
        return Material(chosen.call.encode(), chosen.bulletin.encoded, chosen.mail(name))

    def mask(
        self,
        name: str,
        vectors: Mapping[int, Vector],
        at: tuple[int, str] = (0, "train"),
        evidence: Evidence = EVIDENCE,
        contributes: bool = True,
    ) -> tuple[bytes, dict[int, Vector]]:
        """A member's header and masked vectors; those that were given stay as they are."""
        masked = {bits: vector.copy() for bits, vector in vectors.items()}
        return self.members[name].mask(self.material(name), *at, evidence, masked, contributes), masked

    def begin(self, sizes: Mapping[int, int], at: tuple[int, str] = (0, "train")) -> MaskedSum:
        return MaskedSum(self.setup, *at, sizes)

    def collect(
        self,
        inputs: Mapping[str, Mapping[int, Vector]],
        survivors: Iterable[str],
        at: tuple[int, str] = (0, "train"),
    ) -> MaskedSum:
        """The sum once the survivors' vectors are in."""
        sizes = {bits: len(vector) for bits, vector in next(iter(inputs.values())).items()}
        collected = self.begin(sizes, at)
        for name in survivors:
            collected.add(name, *self.mask(name, inputs[name], at))
        return collected

    def agree(self, collected: MaskedSum, helpers: Iterable[str]) -> None:
        for name in helpers:
            at = (collected.round, collected.stage)
            signed = self.members[name].agree(self.material(name, collected.setup), *at, collected.passed_on())
            collected.take_agreement(name, signed)

    def opening(self, collected: MaskedSum, name: str) -> bytes:
        at = (collected.round, collected.stage)
        material = self.material(name, collected.setup)
        return self.members[name].open(material, *at, collected.passed_on(), collected.agreed())

    def open(self, collected: MaskedSum, helpers: Iterable[str]) -> dict[int, Vector] | None:
        for name in helpers:
            collected.take_opening(name, self.opening(collected, name))
        return collected.unmask()


def random_inputs(names: Iterable[str], size: int = 40, seed: int = 0) -> dict[str, dict[int, Vector]]:
    """Vectors of any numbers of both rings."""
    generator = np.random.default_rng(seed)
    return {
        name: {
            32: generator.integers(0, 2**32, size, np.uint32).astype(RINGS[32]),
            64: generator.integers(0, 2**64, size // 2, np.uint64).astype(RINGS[64]),
        }
        for name in names
    }


def plain_sum(inputs: Mapping[str, Mapping[int, Vector]], names: Iterable[str]) -> dict[int, Vector]:
    """What the sum of some members' vectors should be."""
    chosen = [inputs[name] for name in names]
    return {bits: np.sum([one[bits] for one in chosen], axis=0, dtype=RINGS[bits]) for bits in chosen[0]}


NOBODY_AGREED = Several(()).encode()
