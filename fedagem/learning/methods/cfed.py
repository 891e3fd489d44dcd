"""CFeD: some clients learn the new task, the others review what the old model knows, on data without labels.

From the second task on, every round divides the clients again. Learners do what FedAvg's clients do. Reviewers train on
their share of a surrogate data set: the model should say about it what the global model of the last task's end says.
"""

from collections.abc import Iterable

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step
from fedagem.learning.server_side import RemembersPreviousModel, ServerSide
from fedagem.settings import Settings

_REVIEWS, _SURROGATE = "reviews", "surrogate"


class CFeDSettings(Settings):
    """The settings of CFeD."""

    review_share: float = Field(0.4, ge=0, lt=1)
    """The share of clients that review in a round; with 0, everybody learns and reviews in every step."""
    coefficient: float = Field(0.1, ge=0)
    """How much the distance to the old model's answers counts."""
    temperature: float = Field(2.0, gt=0)
    """What outputs are divided by before they are compared; the higher, the more the small ones count."""


class CFeD(Method):
    """Clients learn or review; the original's distillation on the server is left out, as in the paper."""

    Settings = CFeDSettings
    settings: CFeDSettings
    paper = "Ma et al., Continual Federated Learning Based on Knowledge Distillation, IJCAI 2022"
    uses_buffer = False
    needs_boundaries = True
    needs_previous_model = True
    needs_surrogate = True
    detects = False
    scenarios = frozenset({"class_il", "task_il"})

    def server_side(self, exchanges: list[Exchange]) -> ServerSide:
        return RemembersPreviousModel(exchanges)

    def begin_round(self, learner: Learner) -> None:
        place = learner.place
        order = torch.randperm(place.clients, generator=place.shared_generator("review"))
        reviewers = order[: round(self.settings.review_share * place.clients)].tolist()
        learner.notes[_REVIEWS] = learner.teacher is not None and place.rank in reviewers

    def batches(self, learner: Learner, stream: Iterable[Batch]) -> Iterable[Batch]:
        """A reviewer takes as many steps as its own data would, with as many samples in each."""
        if not learner.notes[_REVIEWS]:
            return stream
        return (_from_surrogate(learner, len(batch["x"])) for batch in stream)

    def observe(self, learner: Learner, batch: Batch) -> Step:
        if learner.notes[_REVIEWS]:
            return Step(learner.backward({"review": self._distance(learner, batch)}), remember=None)
        view = learner.augment(batch)
        losses = learner.losses(learner.logits(view), view)
        if learner.teacher is not None and self.settings.review_share == 0 and self.settings.coefficient > 0:
            losses["review"] = self._distance(learner, _from_surrogate(learner, len(batch["x"])))
        return Step(learner.backward(losses), remember=batch)

    def _distance(self, learner: Learner, batch: Batch) -> Tensor:
        """The cross-entropy of the old model's answers and those of the model, both softened by the temperature."""
        assert learner.teacher is not None
        view = learner.augment(batch)
        with torch.no_grad():
            answers = (learner.logits_of(learner.teacher, view) / self.settings.temperature).softmax(dim=1)
        distance = functional.cross_entropy(learner.logits(view) / self.settings.temperature, answers)
        return self.settings.coefficient * distance


def _from_surrogate(learner: Learner, count: int) -> Batch:
    """A random part of the client's share."""
    if _SURROGATE not in learner.notes:
        learner.notes[_SURROGATE] = learner.data.surrogate() if learner.data else None
    if not (share := learner.notes[_SURROGATE]) or not len(share["x"]):
        raise PlanError(
            "task_runner.settings.method is cfed, but this client has no share of a surrogate data set: name one in "
            "data_loader.settings.surrogate that has a sample for every client."
        )
    return {"x": share["x"][torch.randperm(len(share["x"]), generator=learner.generator)[:count]]}
