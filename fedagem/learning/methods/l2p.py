"""L2P: a frozen transformer, and a pool of prompts of which each image is given those whose keys are nearest to it."""

from pydantic import Field
from torch import Tensor

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.method import Step
from fedagem.settings import Settings
from models.prompted_vit import PromptedViT


class L2PSettings(Settings):
    """The settings of L2P."""

    pull: float = Field(0.5, ge=0)
    """How strongly the keys of chosen prompts are drawn to the images that chose them."""


class L2P(FedAvg):
    """Cross-entropy over all classes, less `pull` times the cosines of the chosen keys.

    Without the original's mask of the classes of other tasks, and with prompts chosen for each image rather than for a
    whole batch: both would need to know the task.
    """

    Settings = L2PSettings
    settings: L2PSettings
    paper = "Wang et al., Learning to Prompt for Continual Learning, CVPR 2022"
    detects = False

    def prepare(self, learner: Learner) -> None:
        try:
            _network(learner).check_backbone()
        except ValueError as problem:
            raise PlanError(f"task_runner.settings.model: {problem}.") from problem
        super().prepare(learner)

    def observe(self, learner: Learner, batch: Batch) -> Step:
        view = learner.augment(batch)
        losses = learner.losses(learner.logits(view), view)
        losses["pull"] = -self.settings.pull * _similarity(learner).mean()
        return Step(learner.backward(losses), remember=batch)


def _network(learner: Learner) -> PromptedViT:
    module = learner.model.module
    if not isinstance(module, PromptedViT):
        raise PlanError(
            f"task_runner.settings.method is l2p, but the network is {type(module).__name__}: use "
            "models.prompted_vit.PromptedViT, see plan/sequential_cifar100_l2p.yaml."
        )
    return module


def _similarity(learner: Learner) -> Tensor:
    similarity = _network(learner).similarity
    assert similarity is not None
    return similarity
