"""What a client does with the batches of a round: ClientUpdate."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import Reference, Refinement
from fedagem.learning.methods.method import Method


@dataclass
class UpdateReport:
    """What a client can say about one local update."""

    batches: int = 0
    samples: int = 0
    refined: int = 0
    """In how many batches the gradient was changed by g_ref."""
    loss_sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def losses(self) -> dict[str, float]:
        """Mean of each loss term over the batches."""
        return {name: total / max(self.batches, 1) for name, total in self.loss_sums.items()}

    def refined_share(self) -> float:
        """The share of batches whose gradient was refined."""
        return self.refined / max(self.batches, 1)


def client_update(
    learner: Learner,
    batches: Iterable[Batch],
    method: Method,
    optimizer: torch.optim.Optimizer,
    refinement: Refinement | None,
    g_ref: Tensor | None,
) -> UpdateReport:
    """Algorithm ClientUpdate: method's gradient, refinement by g_ref, SGD step, buffer, for each batch."""
    report = UpdateReport()
    reference = Reference.of(g_ref) if refinement else None
    learner.model.module.train()
    for batch in batches:
        step = method.observe(learner, batch)
        if refinement:
            report.refined += refinement(learner.gradient, reference, learner.generator)
        optimizer.step()
        learner.buffer.add(step.remember, learner.generator)
        report.batches += 1
        report.samples += len(batch["x"])
        for name, value in step.losses.items():
            report.loss_sums[name] += value
    return report
