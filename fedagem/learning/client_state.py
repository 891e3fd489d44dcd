"""What a client remembers between rounds, kept under its own name and surviving its process.

A state is written after each local update. The two newest are kept, so that a round can be repeated: if the
aggregator dies and starts round r again, the client goes back to what it was before round r. A state says which plan
it comes from, so that a federation of another plan in the same folder does not learn from a stranger's buffer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedagem.errors import CorruptStateError
from fedagem.files import check_origin, read_state, write_state
from fedagem.learning.buffer import ReplayBuffer


@dataclass
class ClientState:
    """A client's buffer, and the last round that went into it."""

    buffer: ReplayBuffer
    after_round: int | None = None


class ClientStateStore:
    """The saved states of one named client."""

    def __init__(self, directory: Path, fresh_buffer: Callable[[], ReplayBuffer], origin: str) -> None:
        """`origin` names the plan that the states belong to."""
        self.directory = directory
        self._origin = origin
        self._fresh_buffer = fresh_buffer
        self._current: ClientState | None = None

    def before(self, round_number: int) -> ClientState:
        """The client as it was when the round began, whatever happened since."""
        current = self._current
        if current is None or (current.after_round is not None and current.after_round >= round_number):
            self._current = self._load(round_number)
        assert self._current is not None
        return self._current

    def save(self, state: ClientState, round_number: int) -> None:
        """Keep the state as it is after the round, and the one before it."""
        record = {
            "buffer": state.buffer.state_dict(),
            "after_round": round_number,
            "previous": state.after_round,
            "origin": self._origin,
        }
        write_state(self._path(round_number), record)
        for old in self._saved_rounds():
            if old not in {round_number, state.after_round}:
                self._path(old).unlink()
        self._current = ClientState(state.buffer, round_number)

    def forget(self) -> None:
        """Drop what is in memory, so that the next look takes the last good state from disk."""
        self._current = None

    def _load(self, round_number: int) -> ClientState:
        saved = self._saved_rounds()
        usable = [after for after in saved if after < round_number]
        if usable:
            record = self._read(max(usable))
            return ClientState(ReplayBuffer.from_state_dict(record["buffer"]), record["after_round"])
        if saved and self._read(min(saved))["previous"] is not None:
            raise CorruptStateError(
                f"{self.directory} has states after rounds {saved}, but round {round_number} needs an earlier one: "
                "the federation was set back; remove this folder to let the client start again with an empty buffer."
            )
        return ClientState(self._fresh_buffer())

    def _read(self, after_round: int) -> dict[str, Any]:
        path = self._path(after_round)
        record = read_state(path)
        check_origin(path, record, self._origin)
        return record

    def _saved_rounds(self) -> list[int]:
        names = (re.fullmatch(r"after_round_(\d+)\.state", path.name) for path in self.directory.glob("*.state"))
        return sorted(int(name[1]) for name in names if name)

    def _path(self, after_round: int) -> Path:
        return self.directory / f"after_round_{after_round:06d}.state"
