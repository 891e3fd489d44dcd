"""Fed-A-GEM: the gradient of a client's buffer, and how a local gradient g is refined by the average g_ref of them.

Fed-A-GEM is `project`, on `conflict`, at rate 1; the rest are the alternatives of the paper's ablation.
"""

import logging
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fedagem.learning.learner import Learner
from fedagem.settings import Settings

logger = logging.getLogger(__name__)


def buffer_gradient(learner: Learner, count: int) -> Tensor | None:
    """Algorithm ComputeBufferGrad on `count` samples, or None for an empty buffer.

    The gradient is that of training (batch statistics if the model has BatchNorm), but the model is left exactly
    as it was, running statistics included.
    """
    if len(learner.buffer) == 0:
        return None
    module = learner.model.module
    statistics = [statistic.clone() for statistic in module.buffers()]
    module.train()
    samples = learner.buffer.sample(count, learner.generator)
    try:
        learner.backward(learner.losses(learner.logits(samples), samples))
    finally:
        with torch.no_grad():
            for statistic, saved in zip(module.buffers(), statistics, strict=True):
                statistic.copy_(saved)
    return learner.gradient.clone()


@dataclass(frozen=True)
class Reference:
    """A usable g_ref with its squared norm, computed once per round."""

    gradient: Tensor
    squared_norm: float

    @classmethod
    def of(cls, gradient: Tensor | None) -> "Reference | None":
        """None if there is nothing to refine with: no g_ref, a zero one, or a non-finite one (reported)."""
        if gradient is None:
            return None
        squared_norm = float(gradient.dot(gradient))
        if not torch.isfinite(torch.tensor(squared_norm)):
            logger.warning("g_ref is not finite (squared norm %s): training without refinement", squared_norm)
            return None
        # Below the smallest normal number the square has lost its digits: such a g_ref is zero to this arithmetic.
        return cls(gradient, squared_norm) if squared_norm >= torch.finfo(gradient.dtype).tiny else None


class Refinement(Settings):
    """A rule that changes g in place, given g_ref."""

    how: Literal["project", "project_and_scale", "rotate", "average"] = "project"
    """How g is changed; Fed-A-GEM projects."""
    when: Literal["conflict", "always"] = "conflict"
    """In which case: when g points against g_ref, or in every step."""
    rate: float = Field(1.0, ge=0, le=1)
    """The share p of the cases in which the rule is applied."""

    def __call__(self, g: Tensor, reference: Reference | None, generator: torch.Generator) -> bool:
        """Refine g in place and say whether it was changed; without a reference nothing happens."""
        if reference is None:
            return False
        dot = float(g.dot(reference.gradient))
        if self.when == "conflict" and not dot < 0:
            return False
        if self.rate < 1 and float(torch.rand((), generator=generator)) >= self.rate:
            return False
        if self.how == "average":
            g.add_(reference.gradient).div_(2)
            return True
        norm = float(g.norm()) if self.how != "project" else 0.0
        if self.how == "rotate":
            g.add_(reference.gradient)
        else:
            g.add_(reference.gradient, alpha=-dot / reference.squared_norm)
        if self.how != "project":
            _scale_to(g, norm)
        return True


def _scale_to(g: Tensor, norm: float) -> None:
    """Give g the length it had; a vector that vanished stays zero."""
    length = float(g.norm())
    if length > 0:
        g.mul_(norm / length)
