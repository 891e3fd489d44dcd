"""The aggregator's side of the protocol: pass messages on, add masked vectors up, and remove the masks of the sum.

It sees public keys, envelopes that it cannot open, masked vectors and, for each member and sum, shares of one secret.
"""

import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedagem.secagg import seeds, sharing
from fedagem.secagg.bulletin import Bulletin, read_keys
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.identity import Verifier, digest_of_pins
from fedagem.secagg.masks import RINGS, Vector, apply_masks
from fedagem.secagg.member import pair_mask
from fedagem.secagg.messages import Agreement, Call, Dealt, Header, Mail, Opening, Several, Shares, digest
from fedagem.secagg.settings import SecureAggregation

_TRIES = 2000
"""How many choices of helpers are tried if some of them have sent wrong shares."""


class Setup:
    """The keys and shares of one setup, as they arrive."""

    def __init__(
        self,
        federation: str,
        members: Iterable[str],
        sums: Iterable[tuple[int, str]],
        settings: SecureAggregation,
        verifier: Verifier,
    ) -> None:
        chosen = tuple(members)
        self.call = Call(
            federation,
            digest_of_pins(verifier.pins),
            chosen,
            settings.helpers(len(chosen)),
            tuple(sums),
            os.urandom(16),
        )
        self._verifier = verifier
        self._certified: dict[str, bytes] = {}
        self._bulletin: Bulletin | None = None
        self._shares: dict[str, Shares] = {}

    @property
    def bulletin(self) -> Bulletin:
        """The keys of all who have sent some in time."""
        if self._bulletin is None:
            inside = [self._certified[name] for name in self.call.members if name in self._certified]
            self._bulletin = Bulletin(self.call, inside, self._verifier)
        return self._bulletin

    @property
    def peers(self) -> tuple[str, ...]:
        """Who has keys and has dealt shares."""
        return tuple(name for name in self.call.members if name in self._shares)

    def take_keys(self, name: str, certified: bytes) -> None:
        """A member's keys, until the bulletin is made."""
        if read_keys(self.call, certified, self._verifier).name != name:
            raise ProtocolError(f"{name!r} has sent the keys of somebody else")
        self._certified[name] = certified

    def take_shares(self, name: str, message: bytes) -> None:
        """The envelopes of a member, one for each other member of the bulletin."""
        shares = Shares.decode(message)
        note = self.bulletin.read(shares.dealt, Dealt)
        if note.name != name or note.bulletin != self.bulletin.digest:
            raise ProtocolError(f"the shares of {name!r} are not for this bulletin")
        if {peer for peer, _ in shares.envelopes} != self.bulletin.keys.keys() - {name}:
            raise ProtocolError(f"{name!r} has not dealt a share to everybody")
        if note.envelopes != shares.envelopes_digest:
            raise ProtocolError(f"the envelopes of {name!r} are not those that it has signed")
        self._shares[name] = shares

    def mail(self, name: str) -> bytes:
        """What a member gets of all who have dealt shares."""
        letters = [(self._shares[peer].dealt, dict(self._shares[peer].envelopes).get(name, b"")) for peer in self.peers]
        return Mail(tuple(letters)).encode()


@dataclass
class MaskedSum:
    """One sum: masked vectors are added on arrival, and the masks removed once enough members have opened it."""

    setup: Setup
    round: int
    stage: str
    sizes: Mapping[int, int]
    """By the bits of a ring, the length of its vector."""
    headers: dict[str, tuple[bytes, Header]] = field(default_factory=dict)
    agreements: dict[str, bytes] = field(default_factory=dict)
    openings: dict[str, Opening] = field(default_factory=dict)
    liars: set[str] = field(default_factory=set)
    """Who has sent shares that do not fit."""

    def __post_init__(self) -> None:
        self._place, self._sum = self.setup.bulletin.sum_at(self.round, self.stage)
        self.total = {bits: np.zeros(size, RINGS[bits]) for bits, size in self.sizes.items()}

    @property
    def survivors(self) -> tuple[str, ...]:
        """Whose vectors are in the sum."""
        return tuple(name for name in self.setup.peers if name in self.headers)

    @property
    def missing(self) -> tuple[str, ...]:
        """Who shares masks with the survivors, but has sent no vector."""
        return tuple(name for name in self.setup.peers if name not in self.headers)

    @property
    def contributors(self) -> int:
        """How many of the survivors have something to contribute."""
        return sum(header.contributes for _, header in self.headers.values())

    def add(self, name: str, signed: bytes, vectors: Mapping[int, Vector]) -> None:
        """Add a member's masked vectors; a refused one leaves nothing behind."""
        header = self.setup.bulletin.read(signed, Header, self._sum)
        if header.name != name or name not in self.setup.peers:
            raise ProtocolError(f"{name!r} has sent the header of somebody else, or has dealt no shares")
        if name in self.headers:
            raise ProtocolError(f"{name!r} has sent its vector for {self._sum} already")
        if header.peers != digest("\n".join(self.setup.peers).encode()):
            raise ProtocolError(f"{name!r} shares masks with other members than those who have dealt shares")
        for _, other in self.headers.values():
            if (other.model, other.shown) != (header.model, header.shown):
                raise ProtocolError(f"{name!r} was shown another model than {other.name!r}")
        if {bits: (vector.shape, vector.dtype) for bits, vector in vectors.items()} != {
            bits: ((size,), RINGS[bits]) for bits, size in self.sizes.items()
        }:
            raise ProtocolError(f"the masked vectors of {name!r} have other shapes than those asked for")
        for bits, vector in vectors.items():
            np.add(self.total[bits], vector, out=self.total[bits])
        self.headers[name] = signed, header

    def passed_on(self) -> bytes:
        """The headers of the survivors, for those who shall agree or open."""
        return Several(tuple(self.headers[name][0] for name in self.survivors)).encode()

    def take_agreement(self, name: str, signed: bytes) -> None:
        """A survivor's signature under the list of survivors."""
        agreement = self.setup.bulletin.read(signed, Agreement, self._sum)
        if agreement.name != name or agreement.survivors != self.survivors:
            raise ProtocolError(f"{name!r} agrees to another list of survivors")
        self.agreements[name] = signed

    def agreed(self) -> bytes:
        """All agreements so far."""
        return Several(tuple(self.agreements.values())).encode()

    def take_opening(self, name: str, signed: bytes) -> None:
        """A survivor's shares: exactly those that are asked for."""
        opening = self.setup.bulletin.read(signed, Opening, self._sum)
        given = tuple(peer for peer, _ in opening.self_shares), tuple(peer for peer, _ in opening.pair_shares)
        if opening.name != name or given != (self.survivors, self.missing):
            raise ProtocolError(f"{name!r} has opened something else than what was asked for")
        self.openings[name] = opening

    def unmask(self) -> dict[int, Vector] | None:
        """The sums of the survivors' vectors; None if the shares so far do not suffice."""
        if len(self.openings) < self.setup.call.helpers:
            return None
        secrets: list[tuple[str, bool, bytes]] = []
        for owner, survived in [(name, True) for name in self.survivors] + [(name, False) for name in self.missing]:
            if (secret := self._secret(owner, survived)) is None:
                return None
            secrets.append((owner, survived, secret))
        masks = [mask for owner, survived, secret in secrets for mask in self._masks(owner, survived, secret)]
        for bits, vector in self.total.items():
            apply_masks(vector, [(seeds.mask_key(seed, bits), sign) for seed, sign in masks])
        return self.total

    def _masks(self, owner: str, survived: bool, secret: bytes) -> Iterator[tuple[bytes, int]]:
        """What has to be added to the sum because of one member: minus its own mask, or the masks it did not send."""
        if survived:
            yield seeds.self_seed(secret, owner, self._sum), -1
            return
        key = seeds.pair_key(secret, self._sum)
        for peer in self.survivors:
            yield pair_mask(self.setup.bulletin, self._place, self._sum, owner, key, peer)

    def _secret(self, owner: str, survived: bool) -> bytes | None:
        """A secret put together of shares that fit; names those who have sent shares that do not."""
        shares = {
            name: dict(opening.self_shares if survived else opening.pair_shares)[owner]
            for name, opening in self.openings.items()
        }
        honest = [name for name in shares if name not in self.liars]
        tries = itertools.combinations(honest, self.setup.call.helpers)
        for helpers in itertools.islice(tries, _TRIES):
            if (secret := self._combine(shares, helpers)) and self._fits(owner, survived, secret):
                self._name_liars(owner, survived, shares, list(helpers))
                return secret
        return None

    def _name_liars(self, owner: str, survived: bool, shares: Mapping[str, bytes], helpers: list[str]) -> None:
        for name in shares.keys() - set(helpers):
            secret = self._combine(shares, [name, *helpers[1:]])
            if not (secret and self._fits(owner, survived, secret)):
                self.liars.add(name)

    def _combine(self, shares: Mapping[str, bytes], helpers: Iterable[str]) -> bytes | None:
        chosen = tuple(helpers)
        weights = _factors(tuple(self.setup.bulletin.places[name] for name in chosen))
        return sharing.combine([shares[name] for name in chosen], weights, seeds.SECRET_BYTES)

    def _fits(self, owner: str, survived: bool, secret: bytes) -> bool:
        """Whether a secret is the one that its owner has advertised."""
        public, commitment = self.setup.bulletin.keys[owner].sums[self._place]
        if survived:
            return seeds.commitment(secret, owner, self._sum) == commitment
        return seeds.pair_key(secret, self._sum).public_key().public_bytes_raw() == public


@functools.lru_cache(maxsize=16)
def _factors(places: tuple[int, ...]) -> list[int]:
    return sharing.factors(places)
