"""A client's side of the protocol: make keys, deal shares, mask, agree, open.

Each step is one method that takes what the aggregator passes on and returns what is sent back. Between two steps a
member remembers nothing that is not in its journal, so one that was killed goes on with the step that is asked of it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedagem.secagg import seeds, sharing
from fedagem.secagg.bulletin import Bulletin, sign
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.identity import Signer, Verifier, digest_of_pins
from fedagem.secagg.journal import Input, Journal
from fedagem.secagg.masks import Vector, apply_masks
from fedagem.secagg.messages import Agreement, Call, Dealt, Header, Keys, Mail, Opening, Several, Shares, digest
from fedagem.secagg.seeds import SumName
from fedagem.secagg.settings import FEWEST, SecureAggregation

_NONCE = bytes(12)
"""Of an envelope: its key seals nothing else."""


@dataclass(frozen=True)
class Evidence:
    """What the aggregator has shown a member for a stage: all members must have seen the same."""

    model: bytes
    """The digest of the global model."""
    model_round: int
    """Which round begins with this model."""
    shown: bytes
    """The digest of all other tensors."""


@dataclass(frozen=True)
class Material:
    """What the aggregator passes on about a setup once shares are dealt."""

    call: bytes
    bulletin: bytes
    mail: bytes


@dataclass(frozen=True)
class _Seat:
    """A member's place in a setup whose messages it has checked."""

    bulletin: Bulletin
    root: bytes
    peers: tuple[str, ...]
    """Who has dealt shares, this member included, in the order of the member list."""
    shares: Mapping[str, bytes]
    """By dealer, the shares that this member holds: of the self secret and of the pair secret, sum after sum."""

    @property
    def peers_digest(self) -> bytes:
        return digest("\n".join(self.peers).encode())


class Member:
    """One client; its journal is the only thing that it changes."""

    def __init__(
        self, name: str, federation: str, settings: SecureAggregation, signer: Signer, verifier: Verifier, folder: Path
    ) -> None:
        """`federation` names the plan; `folder` is for the member's keys and promises."""
        self.name = name
        self._federation = federation
        self._settings = settings
        self._signer = signer
        self._verifier = verifier
        self._journal = Journal(folder, federation)
        self._seat: tuple[Material, _Seat] | None = None

    # The steps

    def join(self, call: bytes) -> bytes:
        """Make keys for a setup, and close the one before; returns them signed by the certificate."""
        called = self._read_call(call)
        root = self._journal.root(called.setup) or self._journal.begin(called.setup)
        return self._signer.sign(self._keys(called, root).encode()).encode()

    def deal(self, call: bytes, bulletin: bytes) -> bytes:
        """Share every secret of this member among all who have keys, each in an envelope that only one can open."""
        board, root = self._read_bulletin(call, bulletin)
        mine = seeds.envelope_key(root, board.setup)
        dealt = self._deal(board, root)
        envelopes = []
        for peer, keys in board.keys.items():
            if peer != self.name:
                box = ChaCha20Poly1305(seeds.box_key(mine, keys.envelope, self.name, peer, board.setup))
                about = _about(board.setup, self.name, peer)
                envelopes.append((peer, box.encrypt(_NONCE, dealt[board.places[peer] - 1], about)))
        shares = Shares(b"", tuple(envelopes))
        note = Dealt(board.setup, self.name, board.digest, shares.envelopes_digest)
        return replace(shares, dealt=sign(note, seeds.signing_key(root, board.setup))).encode()

    def mask(
        self,
        material: Material,
        round_number: int,
        stage: str,
        evidence: Evidence,
        vectors: Mapping[int, Vector],
        contributes: bool,
    ) -> bytes:
        """Mask the vectors, by their ring's bits, in place; returns the header that goes with them."""
        seat = self._take_seat(material)
        place, sum_ = seat.bulletin.sum_at(round_number, stage)
        hashed = hashlib.sha256()
        for bits, vector in sorted(vectors.items()):
            hashed.update(b"%d %d;" % (bits, len(vector)))
            hashed.update(vector.data)
        promised = Input(
            hashed.digest(), evidence.model, evidence.model_round, evidence.shown, seat.peers_digest, contributes
        )
        self._journal.promise_input(sum_, promised)
        masks = self._masks(seat, place, sum_)
        for bits, vector in vectors.items():
            apply_masks(vector, [(seeds.mask_key(seed, bits), sign_) for seed, sign_ in masks])
        return sign(self._header(sum_), seeds.signing_key(seat.root, sum_.setup))

    def agree(self, material: Material, round_number: int, stage: str, headers: bytes) -> bytes:
        """Agree to the sum over those whose headers these are, and never again to another."""
        seat = self._take_seat(material)
        _, sum_ = seat.bulletin.sum_at(round_number, stage)
        survivors = self._survivors(seat, sum_, headers)
        self._journal.promise_survivors(sum_, survivors)
        message = Agreement(sum_.setup, round_number, stage, self.name, survivors)
        return sign(message, seeds.signing_key(seat.root, sum_.setup))

    def open(self, material: Material, round_number: int, stage: str, headers: bytes, agreements: bytes) -> bytes:
        """Give the shares that open a sum: for each peer one kind, and never the other."""
        seat = self._take_seat(material)
        place, sum_ = seat.bulletin.sum_at(round_number, stage)
        survivors = self._survivors(seat, sum_, headers)
        if survivors != seat.peers:
            self._check_agreements(seat, sum_, survivors, agreements)
        self._journal.promise_survivors(sum_, survivors)
        self_shares, pair_shares = [], []
        for peer in seat.peers:
            start = 2 * place * sharing.SHARE_BYTES
            of_self, of_pair = (
                seat.shares[peer][begin : begin + sharing.SHARE_BYTES] for begin in (start, start + sharing.SHARE_BYTES)
            )
            if peer in survivors:
                self_shares.append((peer, of_self))
            else:
                pair_shares.append((peer, of_pair))
        message = Opening(sum_.setup, round_number, stage, self.name, tuple(self_shares), tuple(pair_shares))
        return sign(message, seeds.signing_key(seat.root, sum_.setup))

    # What is checked before a step

    def _read_call(self, call: bytes) -> Call:
        called = Call.decode(call)
        if called.federation != self._federation:
            raise ProtocolError(f"the aggregator follows another plan ({called.federation}, not {self._federation})")
        if called.pins != digest_of_pins(self._verifier.pins):
            raise ProtocolError("the aggregator has other fingerprints in plan/members.yaml than this client")
        if len(set(called.members)) != len(called.members) or self.name not in called.members:
            raise ProtocolError(f"{self.name!r} must be in the list of members once, and so must everybody else")
        if len(called.members) < FEWEST:
            raise ProtocolError(f"a sum over {len(called.members)} members hides nobody: at least {FEWEST} are needed")
        if called.helpers != (wanted := self._settings.helpers(len(called.members))):
            raise ProtocolError(f"sums should be opened by {called.helpers} members, but the plan says {wanted}")
        rounds = {round_number for round_number, _ in called.sums}
        stages = {stage for _, stage in called.sums}
        if len(set(called.sums)) != len(called.sums) or len(rounds) > self._settings.rekey_every:
            raise ProtocolError(f"keys are wanted for {len(rounds)} rounds at once, or twice for the same sum")
        if stages - set(self._settings.stages):
            raise ProtocolError(f"keys are wanted for stages that the plan does not name: {', '.join(sorted(stages))}")
        return called

    def _read_bulletin(self, call: bytes, bulletin: bytes) -> tuple[Bulletin, bytes]:
        called = self._read_call(call)
        if (root := self._journal.root(called.setup)) is None:
            raise ProtocolError(f"{self.name!r} has no keys for this setup any more: a new one is needed")
        board = Bulletin(called, Several.decode(bulletin).messages, self._verifier)
        if board.keys.get(self.name) != self._keys(called, root):
            raise ProtocolError(f"the aggregator shows other keys of {self.name!r} than it was sent")
        self._check_number(len(board.keys), called, "have keys")
        return board, root

    def _take_seat(self, material: Material) -> _Seat:
        """Check a setup's messages once, and again only if the aggregator passes on other ones."""
        if self._seat is not None and self._seat[0] == material:
            return self._seat[1]
        board, root = self._read_bulletin(material.call, material.bulletin)
        mine = seeds.envelope_key(root, board.setup)
        own = self._deal(board, root)[board.places[self.name] - 1]
        shares: dict[str, bytes] = {}
        for signed, envelope in Mail.decode(material.mail).letters:
            note = board.read(signed, Dealt)
            if note.bulletin != board.digest:
                raise ProtocolError(f"{note.name!r} was shown other keys than {self.name!r}")
            if note.name in shares:
                raise ProtocolError(f"the shares of {note.name!r} are there twice")
            shares[note.name] = own if note.name == self.name else self._unseal(board, mine, note.name, envelope)
        if self.name not in shares:
            raise ProtocolError(f"the shares of {self.name!r} itself were left out")
        self._check_number(len(shares), board.call, "have dealt shares")
        peers = tuple(name for name in board.call.members if name in shares)
        seat = _Seat(board, root, peers, shares)
        self._seat = material, seat
        return seat

    def _unseal(self, board: Bulletin, mine: X25519PrivateKey, sender: str, envelope: bytes) -> bytes:
        box = ChaCha20Poly1305(seeds.box_key(mine, board.keys[sender].envelope, sender, self.name, board.setup))
        try:
            opened = box.decrypt(_NONCE, envelope, _about(board.setup, sender, self.name))
        except (InvalidTag, ValueError) as problem:
            raise ProtocolError(f"the envelope from {sender!r} to {self.name!r} does not open") from problem
        if len(opened) != 2 * sharing.SHARE_BYTES * len(board.call.sums):
            raise ProtocolError(f"the envelope from {sender!r} to {self.name!r} does not hold a share for every sum")
        return opened

    def _survivors(self, seat: _Seat, sum_: SumName, headers: bytes) -> tuple[str, ...]:
        """Those whose vectors would be summed; refuses unless all have seen the same and enough of them contribute."""
        given = seat.bulletin.read_all(headers, Header, sum_)
        own = self._header(sum_)
        if given.get(self.name) != own:
            raise ProtocolError(f"the header of {self.name!r} is not among those of {sum_} as it was sent")
        for name, header in given.items():
            if name not in seat.peers or header.peers != own.peers:
                raise ProtocolError(f"{name!r} shares masks with other members than {self.name!r}")
            if (header.model, header.shown) != (own.model, own.shown):
                raise ProtocolError(f"{name!r} was shown another model or other tensors than {self.name!r} in {sum_}")
        self._check_number(len(given), seat.bulletin.call, "would be summed")
        contributors = sum(header.contributes for header in given.values())
        if contributors < self._settings.min_contributors:
            raise ProtocolError(
                f"only {contributors} members contribute to {sum_}: fewer than {self._settings.min_contributors} are "
                "not summed"
            )
        return tuple(name for name in seat.peers if name in given)

    def _check_agreements(self, seat: _Seat, sum_: SumName, survivors: tuple[str, ...], agreements: bytes) -> None:
        """Pair secrets are opened only if so many agree on who is missing that no two lists can find so many."""
        given = seat.bulletin.read_all(agreements, Agreement, sum_)
        agreeing = [name for name, each in given.items() if name in survivors and each.survivors == survivors]
        if len(agreeing) < seat.bulletin.call.helpers:
            raise ProtocolError(
                f"{len(agreeing)} members agree on who is missing in {sum_}: {seat.bulletin.call.helpers} are needed"
            )

    def _check_number(self, number: int, call: Call, what: str) -> None:
        if number < max(call.helpers, FEWEST):
            raise ProtocolError(f"only {number} members {what}: at least {max(call.helpers, FEWEST)} are needed")

    # What a member makes of its root

    def _keys(self, call: Call, root: bytes) -> Keys:
        setup, sums = call.setup, []
        for sum_ in call.sum_names():
            public = seeds.pair_key(seeds.pair_secret(root, sum_), sum_).public_key().public_bytes_raw()
            sums.append((public, seeds.commitment(seeds.self_secret(root, sum_), self.name, sum_)))
        envelope = seeds.envelope_key(root, setup).public_key().public_bytes_raw()
        signing = seeds.signing_key(root, setup).public_key().public_bytes_raw()
        return Keys(setup, self.name, envelope, signing, tuple(sums))

    def _deal(self, board: Bulletin, root: bytes) -> list[bytes]:
        """For each member its shares of all secrets of this one."""
        members = len(board.call.members)
        dealt = [bytearray() for _ in range(members)]
        for sum_ in board.call.sum_names():
            for kind, secret in (
                ("self", seeds.self_secret(root, sum_)),
                ("pair", seeds.pair_secret(root, sum_)),
            ):
                random = seeds.coefficients(root, kind, sum_, board.call.helpers - 1)
                for hand, share in zip(dealt, sharing.split(secret, random, members), strict=True):
                    hand.extend(share)
        return [bytes(hand) for hand in dealt]

    def _masks(self, seat: _Seat, place: int, sum_: SumName) -> list[tuple[bytes, int]]:
        """The seeds of all masks of a vector, with their signs."""
        board = seat.bulletin
        masks = [(seeds.self_seed(seeds.self_secret(seat.root, sum_), self.name, sum_), 1)]
        mine = seeds.pair_key(seeds.pair_secret(seat.root, sum_), sum_)
        for peer in seat.peers:
            if peer != self.name:
                masks.append(pair_mask(board, place, sum_, self.name, mine, peer))
        return masks

    def _header(self, sum_: SumName) -> Header:
        promised = self._journal.promised_input(sum_)
        return Header(
            sum_.setup,
            sum_.round,
            sum_.stage,
            self.name,
            promised.peers,
            promised.model,
            promised.shown,
            promised.contributes,
        )


def pair_mask(
    board: Bulletin, place: int, sum_: SumName, owner: str, key: X25519PrivateKey, peer: str
) -> tuple[bytes, int]:
    """The seed of the mask that a member has in common with a peer, and whether the member adds or subtracts it."""
    first, second = sorted((owner, peer), key=board.places.__getitem__)
    public, _ = board.keys[peer].sums[place]
    return seeds.pair_seed(key, public, first, second, sum_), 1 if owner == first else -1


def _about(setup: bytes, sender: str, recipient: str) -> bytes:
    """What an envelope says on the outside; it opens for this setup, sender and recipient only."""
    return setup + f"{sender}\n{recipient}\nshares".encode()
