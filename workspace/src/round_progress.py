"""How far a round has come: its current stage, what is outstanding, who was refused, and when the stage is complete."""

import time
from collections.abc import Callable, Container, KeysView
from typing import Generic, Protocol, TypeVar

from fedagem.plans.rounds import Stage

R = TypeVar("R")
"""The result of a task."""


class Schedule(Protocol):
    """Which stages a round has, and whose they are."""

    def stages_of(self, round_number: int) -> list[Stage]:
        """The stages of a round, in order."""

    def members(self, stage: Stage, round_number: int) -> list[str]:
        """Who works in a stage."""


class RoundProgress(Generic[R]):
    """The position in the current round; whoever shares it between threads guards it with a lock."""

    def __init__(
        self,
        schedule: Schedule,
        has_work: Callable[[Stage], bool],
        round_number: int,
        absent: Container[str] = (),
    ) -> None:
        """A stage without work in this federation is left out; who is absent when a stage begins is not awaited."""
        self._schedule = schedule
        self._has_work = has_work
        self._absent = absent
        self.begin_round(round_number)

    def begin_round(self, round_number: int) -> None:
        """Go to the first stage of a round."""
        self.round_number = round_number
        self._stages = [stage for stage in self._schedule.stages_of(round_number) if self._has_work(stage)]
        self._begin_stage(0)

    def next_stage(self) -> None:
        """Go to the stage after this one."""
        self._begin_stage(self._index + 1)

    @property
    def finished(self) -> bool:
        """Whether no stage of the round is left."""
        return self._index >= len(self._stages)

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self._stages[self._index]

    @property
    def seconds(self) -> float:
        """How long ago the stage began."""
        return time.monotonic() - self.began

    def outstanding(self, client: str) -> list[str]:
        """The tasks of the current stage that are awaited from a client."""
        if client not in self._awaited or client in self._done:
            return []
        return [task for task in self.stage.tasks if (task, client) not in self._results]

    def next_of(self, clients: Container[str]) -> str | None:
        """The first of some clients, in the order of the schedule, who is awaited; None if nobody of them is."""
        return next((name for name in self._pending if name in clients), None)

    def take(self, task: str, client: str, result: R) -> None:
        """Count a result."""
        self._results[task, client] = result
        if not self.outstanding(client):
            self._done.add(client)
            self._pending.pop(client, None)

    def pending(self) -> KeysView[str]:
        """Who is awaited, in the order of the schedule."""
        return self._pending.keys()

    def refuse(self, client: str) -> None:
        """Go on without a client until the stage is over, because of what it has sent."""
        self._refused = True
        self.leave_out(client)

    def leave_out(self, client: str) -> None:
        """Go on without a client until the stage is over."""
        self._awaited.discard(client)
        self._pending.pop(client, None)
        self._done.discard(client)

    @property
    def members(self) -> int:
        """How many work in the stage."""
        return len(self._members)

    def awaited(self) -> int:
        """How many work in the stage and were not left out of it."""
        return len(self._awaited)

    @property
    def deserted(self) -> bool:
        """Whether nobody works in the stage because all who should are absent."""
        return not (self.finished or self._awaited or self._refused)

    def completed(self) -> int:
        """How many have sent all that the stage asks for."""
        return len(self._done)

    def done(self) -> list[str]:
        """Who has sent all that the stage asks for, in the order of the schedule."""
        return [name for name in self._members if name in self._done]

    def results(self, task: str, clients: list[str]) -> dict[str, R]:
        """What these clients sent for a task."""
        return {name: self._results[task, name] for name in clients}

    def _begin_stage(self, index: int) -> None:
        self._index = index
        self._members = [] if self.finished else self._schedule.members(self.stage, self.round_number)
        present = [name for name in self._members if name not in self._absent]
        self._awaited = set(present)
        self._refused = False
        self._pending = dict.fromkeys(present)
        """Who still works, in order: with thousands of clients nobody should have to ask them all."""
        self._done: set[str] = set()
        self._results: dict[tuple[str, str], R] = {}
        self.began = time.monotonic()
        """On the monotonic clock."""
