"""DER: replays the buffer and holds the model to the logits it gave when it saw the samples."""

from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step


class DER(Method):
    """Algorithm "DER ClientUpdate" with regularisation coefficient lambda."""

    def __init__(self, replay_batch: int = 32, coefficient: float = 1.0) -> None:
        super().__init__(replay_batch)
        if not coefficient >= 0:
            path = "task_runner.settings.method_settings.coefficient"
            raise PlanError(f"{path} must not be negative, but is {coefficient}.")
        self.coefficient = coefficient

    def observe(self, learner: Learner, batch: Batch) -> Step:
        replay = learner.replay(self.replay_batch)
        view = learner.augment(batch)
        z = learner.logits(view)
        losses = learner.losses(z, view)
        if replay is not None:
            distance = functional.mse_loss(learner.logits(replay), replay["logits"].float())
            losses["replay"] = self.coefficient * distance
        values = learner.backward(losses)
        return Step(values, remember={**batch, "logits": learner.objective.restore_logits(z.detach(), view)})
