"""FedProx: a client's weights are pulled back to the global model, so that clients of different data drift less."""

from pydantic import Field

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.method import Step
from fedagem.settings import Settings


class FedProxSettings(Settings):
    """The settings of FedProx."""

    mu: float = Field(0.01, ge=0)
    """How strongly the weights are pulled; its authors try 0.001, 0.01, 0.1, 0.5 and 1."""


class FedProx(FedAvg):
    """Minimises F_k(w) + mu/2 |w - w_r|², with w_r the global model of the round; statistics are not pulled."""

    Settings = FedProxSettings
    settings: FedProxSettings
    paper = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"

    def begin_round(self, learner: Learner) -> None:
        learner.start  # noqa: B018 - the first look takes w_r

    def observe(self, learner: Learner, batch: Batch) -> Step:
        step = super().observe(learner, batch)
        drift = learner.model.weights.detach() - learner.start
        learner.gradient.add_(drift, alpha=self.settings.mu)
        step.losses["proximal"] = self.settings.mu / 2 * drift.dot(drift)
        return step
