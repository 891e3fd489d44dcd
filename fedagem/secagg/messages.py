"""What the parties send each other, and how it becomes bytes: msgpack, with fields in a fixed order.

A message from the wire is taken apart only if it is short enough, and refused unless every field is what it should be.
"""

import hashlib
import typing
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar, TypeVar

import msgpack

from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.seeds import SumName

_VERSION = 1
_LONGEST = 2**24
"""Bytes of a message; the bulletin of 1,000 members has 4 million."""
_LONGEST_NAME = 255

M = TypeVar("M", bound="Message")


class Message:
    """Something that is sent; each kind has a word of its own, so that none can be taken for another."""

    kind: ClassVar[str]

    def encode(self) -> bytes:
        """The bytes that are sent and signed."""
        return bytes(msgpack.packb([_VERSION, self.kind, *astuple(typing.cast(Any, self))]))

    @classmethod
    def decode(cls: type[M], data: bytes) -> M:
        """The message that `data` is; raises ProtocolError if it is another one, or none."""
        if len(data) > _LONGEST:
            raise ProtocolError(f"a message of {len(data):,} bytes is too long")
        try:
            version, kind, *values = msgpack.unpackb(data, use_list=False)
        except (ValueError, TypeError, msgpack.exceptions.UnpackException) as problem:
            raise ProtocolError(f"a message of kind {cls.kind!r} cannot be read ({problem})") from problem
        if (version, kind) != (_VERSION, cls.kind):
            raise ProtocolError(f"a message of kind {kind!r}, version {version!r}, came instead of {cls.kind!r}")
        wanted = [(field.name, field.type) for field in fields(typing.cast(Any, cls))]
        if len(values) != len(wanted):
            raise ProtocolError(f"a message of kind {cls.kind!r} has {len(values)} fields instead of {len(wanted)}")
        for (name, annotation), value in zip(wanted, values, strict=True):
            if not _fits(value, annotation):
                raise ProtocolError(f"the field {name} of a message of kind {cls.kind!r} is malformed")
        message = cls(*values)
        if message.encode() != data:
            raise ProtocolError(f"a message of kind {cls.kind!r} is not in its one form")
        return message


def _fits(value: Any, annotation: Any) -> bool:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        wanted = [parts[0]] * len(value) if parts[-1] is ... else parts
        return len(value) == len(wanted) and all(_fits(item, part) for item, part in zip(value, wanted, strict=True))
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if annotation is str:
        return isinstance(value, str) and len(value) <= _LONGEST_NAME
    return isinstance(value, annotation)


def digest(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


@dataclass(frozen=True)
class Call(Message):
    """The aggregator's: who shall make keys for which sums. Its digest names the setup."""

    kind: ClassVar[str] = "call"
    federation: str
    pins: bytes
    members: tuple[str, ...]
    helpers: int
    sums: tuple[tuple[int, str], ...]
    nonce: bytes

    @property
    def setup(self) -> bytes:
        """The name of the setup; everything about it is part of the name."""
        return digest(self.encode())

    def sum_names(self) -> list[SumName]:
        """The sums that keys are made for."""
        setup = self.setup
        return [SumName(setup, round_number, stage) for round_number, stage in self.sums]


@dataclass(frozen=True)
class Keys(Message):
    """A member's public keys for a setup; for each sum the public pair key and the commitment to the self secret."""

    kind: ClassVar[str] = "keys"
    setup: bytes
    name: str
    envelope: bytes
    signing: bytes
    sums: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Certified(Message):
    """Something signed with the key of a certificate."""

    kind: ClassVar[str] = "certified"
    payload: bytes
    certificate: bytes
    signature: bytes


@dataclass(frozen=True)
class Signed(Message):
    """Something signed with a member's key of the setup."""

    kind: ClassVar[str] = "signed"
    payload: bytes
    signature: bytes


@dataclass(frozen=True)
class Several(Message):
    """What the aggregator passes on from several members: the bulletin of keys, headers or agreements."""

    kind: ClassVar[str] = "several"
    messages: tuple[bytes, ...]


@dataclass(frozen=True)
class Dealt(Message):
    """A member has dealt its shares to the members of this bulletin."""

    kind: ClassVar[str] = "dealt"
    setup: bytes
    name: str
    bulletin: bytes
    envelopes: bytes
    """The digest of all envelopes: the aggregator notices if one was damaged on its way."""


@dataclass(frozen=True)
class Shares(Message):
    """A signed `Dealt`, and an encrypted envelope for each other member."""

    kind: ClassVar[str] = "shares"
    dealt: bytes
    envelopes: tuple[tuple[str, bytes], ...]

    @property
    def envelopes_digest(self) -> bytes:
        """What the signed part says of the envelopes."""
        return digest(bytes(msgpack.packb(self.envelopes)))


@dataclass(frozen=True)
class Mail(Message):
    """What one member gets of the others' shares: each signed `Dealt`, and the envelope that is for this member."""

    kind: ClassVar[str] = "mail"
    letters: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Header(Message):
    """What a member says about its masked vector."""

    kind: ClassVar[str] = "header"
    setup: bytes
    round: int
    stage: str
    name: str
    peers: bytes
    model: bytes
    shown: bytes
    contributes: bool


@dataclass(frozen=True)
class Agreement(Message):
    """A member agrees that the vectors of these members, and of no others, are summed."""

    kind: ClassVar[str] = "agreement"
    setup: bytes
    round: int
    stage: str
    name: str
    survivors: tuple[str, ...]


@dataclass(frozen=True)
class Opening(Message):
    """A member's shares: of the self secrets of those whose vectors are there, of the pair secrets of the others."""

    kind: ClassVar[str] = "opening"
    setup: bytes
    round: int
    stage: str
    name: str
    self_shares: tuple[tuple[str, bytes], ...]
    pair_shares: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Refusal(Message):
    """A member cannot go on in a step, and says why."""

    kind: ClassVar[str] = "refusal"
    name: str
    reason: str
