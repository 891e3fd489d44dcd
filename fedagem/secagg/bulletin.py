"""The members' public keys for one setup, and the messages that are signed with them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.identity import Verifier
from fedagem.secagg.messages import Call, Certified, Keys, Message, Several, Signed, digest
from fedagem.secagg.seeds import SumName

_KEY_BYTES = 32

M = TypeVar("M", bound=Message)


def read_keys(call: Call, certified: bytes, verifier: Verifier) -> Keys:
    """A member's keys for the setup that was called for; refuses those of another setup, or of somebody else."""
    given = Certified.decode(certified)
    keys = Keys.decode(given.payload)
    if keys.name not in call.members:
        raise ProtocolError(f"keys of {keys.name!r}, who is not a member")
    if keys.setup != call.setup:
        raise ProtocolError(f"the keys of {keys.name!r} are of another setup")
    parts = [keys.envelope, keys.signing, *(part for pair in keys.sums for part in pair)]
    if len(keys.sums) != len(call.sums) or any(len(part) != _KEY_BYTES for part in parts):
        raise ProtocolError(f"the keys of {keys.name!r} are not those that were called for")
    verifier.verify(keys.name, given)
    return keys


def sign(message: Message, key: Ed25519PrivateKey) -> bytes:
    """A message with the signature of a member's key of the setup."""
    payload = message.encode()
    return Signed(payload, key.sign(payload)).encode()


class Bulletin:
    """Who has keys in a setup; reads what these members have signed."""

    def __init__(self, call: Call, certified: Sequence[bytes], verifier: Verifier) -> None:
        self.call = call
        self.keys: dict[str, Keys] = {}
        for each in certified:
            keys = read_keys(call, each, verifier)
            if keys.name in self.keys:
                raise ProtocolError(f"the keys of {keys.name!r} are there twice")
            self.keys[keys.name] = keys
        self.encoded = Several(tuple(certified)).encode()
        self.digest = digest(self.encoded)
        self.setup = call.setup

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each member's shares: its place in the list of all members."""
        return {name: place for place, name in enumerate(self.call.members, start=1)}

    def sum_at(self, round_number: int, stage: str) -> tuple[int, SumName]:
        """A sum that keys were made for, and which of the keys are for it."""
        if (round_number, stage) not in self.call.sums:
            raise ProtocolError(f"this setup has no keys for stage {stage} of round {round_number}")
        return self.call.sums.index((round_number, stage)), SumName(self.setup, round_number, stage)

    def read(self, signed: bytes, kind: type[M], sum_: SumName | None = None) -> M:
        """A member's message; refuses one of another setup or sum, or one that the member has not signed."""
        outer = Signed.decode(signed)
        message: Any = kind.decode(outer.payload)
        what = f"the {kind.kind} of {message.name!r}"
        if message.name not in self.keys:
            raise ProtocolError(f"{what} is of nobody who has keys in this setup")
        if message.setup != self.setup:
            raise ProtocolError(f"{what} is of another setup")
        if sum_ is not None and (message.round, message.stage) != (sum_.round, sum_.stage):
            raise ProtocolError(f"{what} is for stage {message.stage} of round {message.round}, not for {sum_}")
        try:
            Ed25519PublicKey.from_public_bytes(self.keys[message.name].signing).verify(outer.signature, outer.payload)
        except InvalidSignature as problem:
            raise ProtocolError(f"{what} is not signed by its key of this setup") from problem
        result: M = message
        return result

    def read_all(self, messages: bytes, kind: type[M], sum_: SumName) -> dict[str, M]:
        """The messages of several members by name; refuses two of one member."""
        read: dict[str, M] = {}
        for signed in Several.decode(messages).messages:
            message: Any = self.read(signed, kind, sum_)
            if message.name in read:
                raise ProtocolError(f"the {kind.kind} of {message.name!r} is there twice")
            read[message.name] = message
        return read
