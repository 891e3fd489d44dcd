"""DER: replays the buffer and holds the model to the logits it gave when it saw the samples."""

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, ReplaySettings, Step


class DERSettings(ReplaySettings):
    """The settings of DER."""

    coefficient: float = Field(1.0, ge=0)
    """How much the distance to the stored logits counts."""


class DER(Method):
    """Algorithm "DER ClientUpdate" with regularisation coefficient lambda."""

    Settings = DERSettings
    settings: DERSettings
    paper = "Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020"
    keeps = "its buffer, with the logits of each sample"
    stores_logits = True

    def observe(self, learner: Learner, batch: Batch) -> Step:
        replay = learner.replay(self.settings.replay_batch)
        view = learner.augment(batch)
        z = learner.logits(view)
        losses = learner.losses(z, view)
        if replay is not None:
            losses |= self.replayed(learner, replay)
        values = learner.backward(losses)
        return Step(values, remember={**batch, "logits": learner.objective.restore_logits(z.detach(), view)})

    def replayed(self, learner: Learner, replay: Batch) -> dict[str, Tensor]:
        """The loss terms of what was seen before."""
        distance = functional.mse_loss(learner.logits(replay), replay["logits"].float())
        return {"replay": self.settings.coefficient * distance}
