"""Fed-A-GEM: any method, its gradients projected so that none points against the global buffer gradient g_ref.

Stage `buffer_gradient` averages over the clients the gradients of the global model on their buffers; in stage `train`
the method makes its own gradient g, and Fed-A-GEM refines it: g <- g - (g·g_ref / g_ref·g_ref) g_ref if g·g_ref < 0.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange, StageName
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step
from fedagem.learning.refinement import Reference, Refinement
from fedagem.learning.server_side import ServerSide

logger = logging.getLogger(__name__)

G_REF = "g_ref"


class FedAGEM(Method):
    """A method with Fed-A-GEM: everything is the method's own but the last change of each gradient."""

    paper = "Dai et al., Buffer-based Gradient Projection for Continual Federated Learning, TMLR"

    def __init__(self, method: Method, refinement: Refinement | None = None, samples: int = 32) -> None:
        """`samples` is m of Algorithm ComputeBufferGrad."""
        super().__init__()
        self.method = method
        self.refinement = refinement or Refinement()
        self.samples = samples
        self.uses_buffer = True
        self.needs_boundaries = method.needs_boundaries
        self.needs_previous_model = method.needs_previous_model
        self.detects = method.detects
        self.stores_logits = method.stores_logits
        self.scenarios = method.scenarios

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        return [Exchange(G_REF, (model.size,), "buffer_gradient"), *self.method.exchanges(model)]

    def wants(self, stage: StageName | Literal["evaluate"]) -> list[str]:
        return [*([G_REF] if stage == "train" else []), *self.method.wants(stage)]

    def server_side(self, exchanges: list[Exchange]) -> ServerSide:
        return self.method.server_side(exchanges)

    def buffer_gradient(self, learner: Learner) -> dict[str, Tensor] | None:
        """Algorithm ComputeBufferGrad, or None for an empty buffer.

        The gradient is that of training (batch statistics if the model has BatchNorm), but the model is left exactly
        as it was, running statistics included.
        """
        if len(learner.buffer) == 0:
            return None
        self.method.prepare(learner)
        samples = learner.to_device(learner.buffer.sample(self.samples, learner.generator))
        with learner.model.unchanged_statistics():
            losses = learner.backward(self.method.reference(learner, samples))
        learner.refuse_non_finite({name: float(value) for name, value in losses.items()})
        return {G_REF: learner.gradient.clone()}

    def prepare(self, learner: Learner) -> None:
        self.method.prepare(learner)

    def begin_round(self, learner: Learner) -> None:
        self.method.begin_round(learner)
        g_ref = learner.received.get(G_REF)
        if g_ref is None:
            return
        reference = Reference.of(g_ref)
        if not torch.isfinite(reference.squared_norm):
            logger.warning("g_ref is not finite: training without refinement")
            return
        learner.notes[G_REF] = reference

    def batches(self, learner: Learner, stream: Iterable[Batch]) -> Iterable[Batch]:
        return self.method.batches(learner, stream)

    def observe(self, learner: Learner, batch: Batch) -> Step:
        step = self.method.observe(learner, batch)
        if (reference := learner.notes.get(G_REF)) is None:
            return step
        return replace(step, refined=self.refinement(learner.gradient, reference, learner.generator))

    def reference(self, learner: Learner, view: Batch) -> dict[str, Tensor]:
        return self.method.reference(learner, view)

    def end_round(self, learner: Learner) -> dict[str, Tensor]:
        return self.method.end_round(learner)

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        return self.method.end_task(learner)

    def scores(self, learner: Learner, view: Batch) -> Tensor:
        return self.method.scores(learner, view)
