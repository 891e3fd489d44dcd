"""GLFC: samples weigh the more the less the model knows them, and the best model of the task before is the teacher.

The best model is chosen by perturbed prototypes: after its first round in a task, a client takes the most typical
sample of each of its new classes, moves it further towards that class, and counts how many of these each later global
model gets right; the sums over the clients choose. The original rebuilds such samples on the server from gradients
instead; here nothing is sent that an image could be rebuilt from.
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange
from fedagem.learning.exemplars import evaluating, exemplars_of
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.exemplar_replay import ExemplarReplay, ExemplarSettings, among_seen, of_old_class, one_hot
from fedagem.learning.server_side import SCORE, RemembersBestModel, ServerSide

_PROTOTYPES = "prototypes"


class GLFCSettings(ExemplarSettings):
    """The settings of GLFC."""

    distillation: float = Field(0.5, ge=0, le=1)
    """How much the old model's relations between classes count; the rest is for the labels."""
    perturbation_steps: int = Field(50, ge=0)
    """Gradient steps by which a prototype is changed towards its class."""
    perturbation_lr: float = Field(0.2, gt=0)
    """The learning rate of these steps."""


class GLFC(ExemplarReplay):
    """Gradient compensation and relation distillation."""

    Settings = GLFCSettings
    settings: GLFCSettings
    paper = "Dong et al., Federated Class-Incremental Learning, CVPR 2022"
    keeps = "exemplars of each class, which are its buffer, and prototypes of the current task"

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        """Right answers on prototypes, and their number."""
        return [Exchange(SCORE, (2,), "train", "sum"), Exchange(SCORE, (2,), "end_task", "sum")]

    def server_side(self, exchanges: list[Exchange]) -> ServerSide:
        return RemembersBestModel(exchanges)

    def begin_round(self, learner: Learner) -> None:
        learner.notes[SCORE] = self._score(learner)

    def sigmoid_losses(self, learner: Learner, logits: Tensor, view: Batch) -> dict[str, Tensor]:
        truth = one_hot(logits, view)
        each = self.cross_entropies(learner, logits, truth)
        if learner.teacher is None:
            return {"classification": each.mean()}
        compensated = (compensation(logits, truth, of_old_class(learner, view)) * each).mean()
        related = self.cross_entropies(learner, logits, self.taught(learner, truth, view)).mean()
        share = self.settings.distillation
        return {"classification": (1 - share) * compensated, "distillation": share * related}

    def end_round(self, learner: Learner) -> dict[str, Tensor]:
        if not _prototypes(learner):
            self._make_prototypes(learner)
        return {SCORE: learner.notes[SCORE]}

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        score = self._score(learner)
        learner.kept.pop(_PROTOTYPES, None)
        super().end_task(learner)
        return {SCORE: score}

    def _score(self, learner: Learner) -> Tensor:
        """How many prototypes the global model gets right, and how many there are."""
        prototypes = _prototypes(learner)
        if not prototypes:
            return torch.zeros(2, device=learner.device)
        x, y = (prototypes[name].to(learner.device) for name in ("x", "y"))
        with evaluating(learner.model.module), torch.no_grad():
            right = (among_seen(learner, learner.model.module(x)).argmax(dim=1) == y).sum()
        return torch.stack([right, torch.full_like(right, len(y))]).float()

    def _make_prototypes(self, learner: Learner) -> None:
        """Of each class the sample nearest to the mean, moved towards its label by the model that was just trained.

        A prototype is kept as what the network sees: scaled and normalised as the objective does it.
        """
        assert learner.data is not None
        assert learner.task is not None
        typical = learner.to_device(exemplars_of(learner, learner.data.samples(), 1))
        x, y = learner.objective.logits(nn.Identity(), typical), typical["y"]
        if not len(y):
            return
        with evaluating(learner.model.module):
            for _ in range(self.settings.perturbation_steps):
                x = x.detach().requires_grad_()
                loss = functional.cross_entropy(learner.model.module(x), y, reduction="sum")
                x = x - self.settings.perturbation_lr * torch.autograd.grad(loss, x)[0]
        learner.kept[_PROTOTYPES] = {"task": learner.task.index, "x": x.detach().cpu(), "y": y.cpu()}


def _prototypes(learner: Learner) -> Batch:
    """What the client has made of this task; empty in its first round."""
    kept = learner.kept.get(_PROTOTYPES, {})
    assert learner.task is not None
    return {name: kept[name] for name in ("x", "y")} if kept.get("task") == learner.task.index else {}


def compensation(logits: Tensor, truth: Tensor, old: Tensor) -> Tensor:
    """One weight per sample: how far its class is from certain, over the mean of this in its group, old or new."""
    distance = ((logits.detach().sigmoid() - 1).abs() * truth).sum(dim=1)
    group = torch.stack([old, ~old]).to(distance.dtype)
    means = (group @ distance) / group.sum(dim=1).clamp(min=1)
    return distance / (means @ group).clamp(min=torch.finfo(distance.dtype).tiny)
