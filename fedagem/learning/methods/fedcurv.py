"""FedCurv: a client stays close to the other clients' models in the directions that matter to their data.

Client s minimises L_s(w) + lambda sum_{j != s} (w - w_j)' F_j (w - w_j), with w_j the model of client j after its last
round and F_j its diagonal Fisher information there. The sums u of F_j and v of F_j w_j are all that the gradient needs.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange, StageName
from fedagem.learning.fisher import diagonal_fisher
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.method import Step
from fedagem.settings import Settings

U, V = "fisher", "fisher_weights"
_ROUND = "fisher_round"
_BOUND = 2.0**20
"""Squared gradients are far below it unless training explodes, and the sums stay exact to 1e-10."""


class FedCurvSettings(Settings):
    """The settings of FedCurv."""

    coefficient: float = Field(1.0, ge=0)
    """lambda: how much the distance to the others' models counts."""
    fisher_samples: int = Field(200, ge=1)
    """On how many of its samples, drawn at random, a client estimates its Fisher information."""


class FedCurv(FedAvg):
    """Adds 2 lambda (u w - v) to the gradient, with the sums over the other clients of the round before."""

    Settings = FedCurvSettings
    settings: FedCurvSettings
    paper = "Shoham et al., Overcoming Forgetting in Federated Learning on Non-IID Data, 2019"
    keeps = "what it sent in the last round; with Fed-A-GEM also its buffer"
    detects = False

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        return [Exchange(name, (model.size,), "train", "sum", keep=True, bound=_BOUND) for name in (U, V)]

    def wants(self, stage: StageName | Literal["evaluate"]) -> list[str]:
        return [U, V] if stage == "train" else []

    def begin_round(self, learner: Learner) -> None:
        u, v = learner.received[U], learner.received[V]
        if learner.kept.get(_ROUND) == learner.place.round_number - 1:
            u, v = without_own(u, v, *(learner.kept[name].to(learner.device) for name in (U, V)))
        learner.notes |= {U: u, V: v}

    def observe(self, learner: Learner, batch: Batch) -> Step:
        step = super().observe(learner, batch)
        u, v, twice = learner.notes[U], learner.notes[V], 2 * self.settings.coefficient
        learner.gradient.addcmul_(u, learner.model.weights.detach(), value=twice).sub_(v, alpha=twice)
        return step

    def end_round(self, learner: Learner) -> dict[str, Tensor]:
        assert learner.data is not None
        samples = learner.data.samples()
        chosen = torch.randperm(len(samples["x"]), generator=learner.generator)[: self.settings.fisher_samples]
        samples = learner.to_device({name: values[chosen.to(values.device)] for name, values in samples.items()})
        fisher = diagonal_fisher(learner, samples)
        own = {U: fisher, V: fisher * learner.model.weights.detach()}
        learner.kept |= {_ROUND: learner.place.round_number, **{name: part.cpu() for name, part in own.items()}}
        return own


def without_own(u: Tensor, v: Tensor, own_u: Tensor, own_v: Tensor) -> tuple[Tensor, Tensor]:
    """The sums without this client's part.

    If that leaves something negative, its part is not in the sums: it came too late, and they stay as they are. What
    is left within the rounding of the sums is nothing, so that a client alone is FedAvg.
    """
    rest, rounding = u - own_u, 1e-6 * own_u + 1e-10
    counted, others = (rest >= -rounding).all(), rest > rounding
    return torch.where(counted, rest * others, u), torch.where(counted, (v - own_v) * others, v)
