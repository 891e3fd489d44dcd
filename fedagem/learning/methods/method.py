"""The interface of a method: what it does with a batch, at the end of a round and of a task, and what it exchanges.

A round calls the hooks in this order: `buffer_gradient` if the method publishes something in that stage, then
`prepare`, `begin_round`, `observe` for each of `batches`, `end_round`; after the last round of a task `end_task`, at
the new global model; and `scores` in evaluations. One instance serves all clients of a process, so what belongs to a
client is in the `Learner`: `kept` for what it keeps between rounds, `notes` for what lasts a round.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange, StageName
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.server_side import ServerSide
from fedagem.settings import Settings, parse_settings

Scenario = Literal["domain_il", "class_il", "task_il"]
"""How accuracy is counted: other domains, other classes, or other classes with the task told."""
SETTINGS_PATH = "task_runner.settings.method_settings"


@dataclass(frozen=True)
class Step:
    """What a method did with one batch. Numbers stay on the device: the loop reads them once, after the last batch."""

    losses: dict[str, Tensor]
    remember: Batch | None
    """What the buffer is offered: the batch, un-augmented, with anything the method wants back later; None if the
    method fills its buffer itself."""
    refined: Tensor | None = None
    """1 if the gradient was changed by g_ref, and 0 if not; None without Fed-A-GEM."""


class NoSettings(Settings):
    """A method without settings."""


class ReplaySettings(Settings):
    """What methods that learn from their buffer have in common."""

    replay_batch: int = Field(32, ge=1)
    """Samples of the buffer in each step."""


class Method(ABC):
    """A continual-learning method; the defaults are those of plain local training."""

    Settings: ClassVar[type[BaseModel]] = NoSettings
    """The model of `task_runner.settings.method_settings`."""
    paper: ClassVar[str] = ""
    """Where the method is from, for `fedagem methods`."""
    keeps: ClassVar[str] = "nothing; with Fed-A-GEM its buffer"
    """What a client keeps between rounds, in words."""

    settings: Any
    uses_buffer: bool = True
    """Whether it learns from its buffer; if not, a client keeps one only for Fed-A-GEM."""
    fills_buffer: bool = False
    """Whether it chooses the samples of its buffer itself, so that nothing is offered to it."""
    needs_boundaries: bool = False
    """Whether it must be told where tasks begin and end."""
    needs_previous_model: bool = False
    """Whether it learns from the global model of an earlier task: `learner.teacher`."""
    needs_surrogate: bool = False
    """Whether it learns from unlabelled data besides that of the tasks: `learner.data.surrogate()`."""
    stores_logits: bool = False
    """Whether its buffer keeps the outputs of the network, which then must have a fixed size."""
    detects: bool = True
    """Whether it works for detection; if not, for classification alone."""
    scenarios: frozenset[Scenario] = frozenset({"domain_il", "class_il", "task_il"})
    """How accuracy may be counted; a plan of another scenario is refused, and other counts are left out."""

    def __init__(self, **settings: Any) -> None:
        self.settings = parse_settings(self.Settings, settings, SETTINGS_PATH)

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        """What clients publish besides the model."""
        return []

    def wants(self, stage: StageName | Literal["evaluate"]) -> list[str]:
        """Which of the tensors that the server offers a client needs in a stage: `learner.received`."""
        return []

    def server_side(self, exchanges: list[Exchange]) -> ServerSide:
        """What the aggregator does besides averaging."""
        return ServerSide(exchanges)

    def prepare(self, learner: Learner) -> None:
        """Put the network into the mode that gradients are computed in, for training and for g_ref."""
        learner.model.module.train()

    def buffer_gradient(self, learner: Learner) -> dict[str, Tensor] | None:
        """Published at the new global model, before the round trains; None if this client has nothing to say."""
        return None

    def begin_round(self, learner: Learner) -> None:  # noqa: B027
        """Called before the first batch; `learner.received`, `task` and `teacher` are set."""

    def batches(self, learner: Learner, stream: Iterable[Batch]) -> Iterable[Batch]:
        """What the client trains on in this round."""
        return stream

    @abstractmethod
    def observe(self, learner: Learner, batch: Batch) -> Step:
        """Leave this method's gradient g for the batch in `learner.gradient`."""

    def reference(self, learner: Learner, view: Batch) -> dict[str, Tensor]:
        """The losses whose gradient on buffer samples is g_ref: the method's own, without penalties or teachers."""
        return learner.losses(learner.logits(view), view)

    def end_round(self, learner: Learner) -> dict[str, Tensor]:
        """Published with the trained model."""
        return {}

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        """Published at the new global model, after the last round of a task."""
        return {}

    def scores(self, learner: Learner, view: Batch) -> Tensor:
        """One score per class for each sample; the highest wins."""
        return learner.logits(view)
