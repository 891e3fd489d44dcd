"""What a member has promised, on disk before anything that it permits is sent.

The danger is a repeated round: the same inputs summed over two sets of members give away their difference, and so do
two inputs under one mask. So a member sends one input for a sum of a setup; once it has agreed to open a sum, it stays
with its input, with what it was shown and with the list of those who are summed, in whatever setup a round is repeated.
"""

import stat
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgpack

from fedagem.errors import CorruptStateError
from fedagem.files import write_file
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.seeds import ROOT_BYTES, SumName, new_root

_KEPT_ROUNDS = 2
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Input:
    """What a member masks, as far as it has to stay the same."""

    vectors: bytes
    """The digest of the encoded vectors."""
    model: bytes
    """The digest of the global model."""
    model_round: int
    """Which round begins with this model."""
    shown: bytes
    """The digest of everything else that the aggregator has shown this member for the stage."""
    peers: bytes
    """The digest of the list of those that it shares masks with."""
    contributes: bool

    def differs_in(self, other: "Input") -> str | None:
        """What two inputs differ in, apart from the peers, who may be others in another setup."""
        if (self.model_round, self.model) != (other.model_round, other.model):
            return "another global model"
        if self.shown != other.shown:
            return "other tensors beside the model"
        if (self.vectors, self.contributes) != (other.vectors, other.contributes):
            return "another result of this client"
        return None


@dataclass(frozen=True)
class Entry:
    """What is promised for a stage of a round."""

    round: int
    stage: str
    setup: bytes
    input: Input
    survivors: tuple[str, ...] | None = None
    """Who is summed; None before anything was agreed or opened."""

    @property
    def name(self) -> str:
        """Which sum the promise is about."""
        return f"stage {self.stage} of round {self.round}"


class Journal:
    """A member's folder: `setup.key` with the root of its keys, and `promises` of the last rounds."""

    def __init__(self, folder: Path, federation: str) -> None:
        """`federation` names the plan that the promises belong to."""
        self._key, self._promises, self._federation = folder / "setup.key", folder / "promises", federation
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        self._entries = self._load()

    def root(self, setup: bytes) -> bytes | None:
        """The root of the keys for a setup; None if this member has none, or has closed the setup."""
        if not self._key.exists():
            return None
        if self._key.stat().st_mode & _FOR_OTHERS:
            raise CorruptStateError(
                f"{self._key} may be read by others (mode {stat.S_IMODE(self._key.stat().st_mode):04o}): make it 0600, "
                "or remove it to get new keys."
            )
        content = self._key.read_bytes()
        if len(content) != len(setup) + ROOT_BYTES:
            raise CorruptStateError(f"{self._key} is damaged ({len(content)} bytes): remove it to get new keys.")
        return content[len(setup) :] if content[: len(setup)] == setup else None

    def begin(self, setup: bytes) -> bytes:
        """A fresh root for a setup, on disk; the one of the setup before is gone, and with it all its keys."""
        root = new_root()
        write_file(self._key, setup + root, private=True)
        return root

    def promise_input(self, sum_: SumName, given: Input) -> None:
        """Promise to mask nothing else for this sum; refuses an input that contradicts an earlier promise."""
        newest = max((entry.round for entry in self._entries), default=0)
        if sum_.round <= newest - _KEPT_ROUNDS:
            raise ProtocolError(f"{sum_} is over: this client has come to round {newest}")
        earlier = self._entry(sum_)
        if earlier is not None and (earlier.survivors is not None or earlier.setup == sum_.setup):
            if difference := earlier.input.differs_in(given):
                when = "opened" if earlier.survivors is not None else "masked with the same keys"
                raise ProtocolError(f"{sum_} was {when} already, and now there is {difference}")
            if earlier.setup == sum_.setup and earlier.input.peers != given.peers:
                raise ProtocolError(f"{sum_} was masked with the same keys already, and now there are other members")
        for entry in self._entries:
            shown = entry.input
            if entry.survivors is not None and shown.model_round == given.model_round and shown.model != given.model:
                raise ProtocolError(f"{sum_} shows another global model than {entry.name}, which was opened")
        entry = Entry(sum_.round, sum_.stage, sum_.setup, given, earlier.survivors if earlier is not None else None)
        if entry != earlier:
            self._put(entry)

    def promised_input(self, sum_: SumName) -> Input:
        """What was masked for a sum; refuses if nothing was, with the keys of this setup."""
        entry = self._entry(sum_)
        if entry is None or entry.setup != sum_.setup:
            raise ProtocolError(f"this client has masked nothing for {sum_} in this setup")
        return entry.input

    def promise_survivors(self, sum_: SumName, survivors: tuple[str, ...]) -> None:
        """Promise to help to open the sum over these members only; refuses if another list was promised."""
        self.promised_input(sum_)
        entry = self._entry(sum_)
        assert entry is not None
        if entry.survivors is None:
            self._put(replace(entry, survivors=survivors))
        elif entry.survivors != survivors:
            raise ProtocolError(
                f"{sum_} was opened as the sum over {', '.join(entry.survivors)}, and is never opened over "
                f"{', '.join(survivors)}"
            )

    def _entry(self, sum_: SumName) -> Entry | None:
        return next((each for each in self._entries if (each.round, each.stage) == (sum_.round, sum_.stage)), None)

    def _put(self, entry: Entry) -> None:
        others = [each for each in self._entries if (each.round, each.stage) != (entry.round, entry.stage)]
        newest = max(each.round for each in (*others, entry))
        entries = [each for each in (*others, entry) if each.round > newest - _KEPT_ROUNDS]
        record = {"federation": self._federation, "entries": [asdict(each) for each in entries]}
        write_file(self._promises, msgpack.packb(record), private=True)
        self._entries = entries

    def _load(self) -> list[Entry]:
        if not self._promises.exists():
            return []
        try:
            record = msgpack.unpackb(self._promises.read_bytes(), use_list=False)
            federation = record["federation"]
            entries = [Entry(**{**each, "input": Input(**each["input"])}) for each in record["entries"]]
        except (ValueError, TypeError, KeyError, msgpack.exceptions.UnpackException) as problem:
            raise CorruptStateError(
                f"{self._promises} is damaged, and without it this client may not go on: start again in another folder."
            ) from problem
        if federation != self._federation:
            raise CorruptStateError(
                f"{self._promises} is of another plan: work in another folder, or remove save/checkpoint.state and "
                "local_state/ to start from the beginning."
            )
        return entries
