"""What a client remembers between rounds, kept under its own name and surviving its process.

A state is written after each step that changes it: training, and the end of a task. States since the beginning of the
newest round are kept, and the last one before it, so that a step can be repeated: if the aggregator dies and starts
round r again, the client goes back to what it was before round r. A state says which plan it comes from, so that a
federation of another plan in the same folder does not learn from a stranger's buffer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedagem.errors import CorruptStateError
from fedagem.files import check_origin, read_state, write_state
from fedagem.learning.buffer import ReplayBuffer


class Moment(NamedTuple):
    """A point in a client's life: a round, and the step in it."""

    round_number: int
    ends_task: bool = False
    """Training comes first, the end of a task after it."""


@dataclass
class ClientState:
    """A client's buffer, what its method keeps, and the last step that went into them."""

    buffer: ReplayBuffer
    kept: dict[str, Any] = field(default_factory=dict)
    after: Moment | None = None


class ClientStateStore:
    """The saved states of one named client."""

    def __init__(self, directory: Path, fresh_buffer: Callable[[], ReplayBuffer], origin: str) -> None:
        """`origin` names the plan that the states belong to."""
        self.directory = directory
        self._origin = origin
        self._fresh_buffer = fresh_buffer
        self._current: ClientState | None = None

    def before(self, moment: Moment) -> ClientState:
        """The client as it was when the step began, whatever happened since."""
        current = self._current
        if current is None or (current.after is not None and current.after >= moment):
            current = self._current = self._load(moment)
        return current

    def save(self, state: ClientState, moment: Moment) -> None:
        """Keep the state as it is after the step, with those that the round may be repeated from."""
        saved = [other for other in self._saved() if other < moment]
        previous = max((other for other in saved if other < Moment(moment.round_number)), default=None)
        record = {
            "buffer": state.buffer.state_dict(),
            "kept": state.kept,
            "has_previous": previous is not None,
            "origin": self._origin,
        }
        write_state(self._path(moment), record)
        for old in self._saved():
            if old > moment or (previous is not None and old < previous):
                self._path(old).unlink()
        self._current = ClientState(state.buffer, state.kept, moment)

    def forget(self) -> None:
        """Drop what is in memory, so that the next look takes the last good state from disk."""
        self._current = None

    def _load(self, moment: Moment) -> ClientState:
        saved = self._saved()
        if usable := [after for after in saved if after < moment]:
            record, after = self._read(max(usable)), max(usable)
            buffer = self._fresh_buffer()
            return ClientState(ReplayBuffer.from_state_dict(record["buffer"], buffer.device), record["kept"], after)
        if saved and self._read(min(saved))["has_previous"]:
            rounds = sorted({after.round_number for after in saved})
            raise CorruptStateError(
                f"{self.directory} has states after rounds {rounds}, but round {moment.round_number} needs an earlier "
                "one: the federation was set back; remove this folder to let the client start again with an empty "
                "buffer."
            )
        return ClientState(self._fresh_buffer())

    def _read(self, moment: Moment) -> dict[str, Any]:
        path = self._path(moment)
        record = read_state(path)
        check_origin(path, record, self._origin)
        return record

    def _saved(self) -> list[Moment]:
        names = (re.fullmatch(r"after_(round|task)_(\d+)\.state", path.name) for path in self.directory.glob("*.state"))
        return sorted(Moment(int(name[2]), name[1] == "task") for name in names if name)

    def _path(self, moment: Moment) -> Path:
        return self.directory / f"after_{'task' if moment.ends_task else 'round'}_{moment.round_number:06d}.state"
