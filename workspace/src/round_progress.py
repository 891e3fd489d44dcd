"""How far a round has come: its current stage, what is outstanding, who was refused, and when the stage is complete."""

import time
from collections.abc import Container
from typing import Generic, Protocol, TypeVar

from fedagem.plans.rounds import Stage

R = TypeVar("R")
"""The result of a task."""


class Schedule(Protocol):
    """Which stages a round has, and whose they are."""

    def stages_of(self, round_number: int) -> list[Stage]:
        """The stages of a round, in order."""

    def members(self, stage: Stage, round_number: int) -> list[str]:
        """Who works in a stage, in the order in which results are summed."""

    def publishes(self, task: str) -> list[str]:
        """What a task sends to be averaged."""


class RoundProgress(Generic[R]):
    """The position in the current round; whoever shares it between threads guards it with a lock."""

    def __init__(self, schedule: Schedule, published: Container[str], round_number: int) -> None:
        """`published` is what this federation averages: the model and the tensors that are exchanged besides it."""
        self._schedule = schedule
        self._published = published
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
        return time.monotonic() - self._began

    def outstanding(self, client: str) -> list[str]:
        """The tasks of the current stage that are awaited from a client."""
        if self.finished or client not in self.awaited():
            return []
        return [task for task in self.stage.tasks if (task, client) not in self._results]

    def take(self, task: str, client: str, result: R) -> None:
        """Count a result."""
        self._results[task, client] = result

    def refuse(self, client: str) -> None:
        """Go on without a client until the stage is over."""
        self._refused.add(client)

    def awaited(self) -> list[str]:
        """Everybody who works in the stage and was not refused; if all were, the stage cannot be completed."""
        members = self._schedule.members(self.stage, self.round_number)
        return [name for name in members if name not in self._refused]

    def done(self) -> list[str]:
        """Who has sent all that the stage asks for, in the order in which results are summed."""
        return [name for name in self.awaited() if all((task, name) in self._results for task in self.stage.tasks)]

    def results(self, task: str, clients: list[str]) -> dict[str, R]:
        """What these clients sent for a task."""
        return {name: self._results[task, name] for name in clients}

    def _begin_stage(self, index: int) -> None:
        self._index = index
        self._results: dict[tuple[str, str], R] = {}
        self._refused: set[str] = set()
        self._began = time.monotonic()

    def _has_work(self, stage: Stage) -> bool:
        """A stage that only publishes tensors that this federation does not average is left out."""
        published = [name for task in stage.tasks for name in self._schedule.publishes(task)]
        return not published or any(name in self._published for name in published)
