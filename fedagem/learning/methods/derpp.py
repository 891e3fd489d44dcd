"""DER++: DER that also learns the labels of what it replays."""

import torch
from pydantic import Field
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.der import DER, DERSettings


class DERppSettings(DERSettings):
    """The settings of DER++."""

    beta: float = Field(0.5, ge=0)
    """How much the loss of a second sample of the buffer counts."""


class DERpp(DER):
    """Adds beta times the loss of another `replay_batch` stored samples; `coefficient` is alpha of its paper."""

    Settings = DERppSettings
    settings: DERppSettings

    def replayed(self, learner: Learner, replay: Batch) -> dict[str, Tensor]:
        terms = super().replayed(learner, replay)
        again = learner.replay(self.settings.replay_batch)
        assert again is not None
        losses = learner.losses(learner.logits(again), again)
        return {**terms, "replayed_labels": self.settings.beta * torch.stack(list(losses.values())).sum()}
