"""The interface of a method: it contributes a gradient, and says what is worth remembering."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner


@dataclass(frozen=True)
class Step:
    """What a method did with one batch."""

    losses: dict[str, float]
    remember: Batch
    """What the buffer is offered: the batch, un-augmented, with anything the method wants back later."""


class Method(ABC):
    """A continual-learning method. It needs no task boundaries and never learns the task index."""

    replays: ClassVar[bool] = True
    """Whether it learns from its buffer; if not, `replay_batch` changes nothing."""

    def __init__(self, replay_batch: int = 32) -> None:
        if replay_batch < 1:
            raise PlanError(
                f"task_runner.settings.method_settings.replay_batch must be at least 1, not {replay_batch}."
            )
        self.replay_batch = replay_batch

    @abstractmethod
    def observe(self, learner: Learner, batch: Batch) -> Step:
        """Leave this method's gradient g for the batch in `learner.gradient`."""
