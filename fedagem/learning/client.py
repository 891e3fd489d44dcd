"""What a client does with the batches of a round: ClientUpdate."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedagem.learning.buffer import FIRST, Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step

_REFINED = "refined"


@dataclass
class UpdateReport:
    """What a client can say about one local update."""

    batches: int = 0
    samples: int = 0
    refined: int = 0
    """In how many batches the gradient was changed by g_ref."""
    loss_sums: dict[str, float] = field(default_factory=dict)
    published: dict[str, Tensor] = field(default_factory=dict)
    """What the method sends along with the model."""

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
    offer_once: bool = False,
) -> UpdateReport:
    """Algorithm ClientUpdate: the method's gradient, SGD step, buffer, for each batch.

    Between two batches nothing is read from the device: losses add up there and are read once, after the last batch. A
    loss that is not finite is found then; the caller keeps the client's last good state. With `offer_once` the buffer
    is offered a sample only the first time that its client trains on it.
    """
    report = UpdateReport()
    sums: dict[str, Tensor] = {}
    learner.notes.clear()
    method.prepare(learner)
    method.begin_round(learner)
    for batch in method.batches(learner, batches):
        if not offer_once:
            batch.pop(FIRST, None)
        step = method.observe(learner, learner.to_buffer_device(batch))
        optimizer.step()
        if step.remember is not None:
            learner.buffer.add(step.remember, learner.generator)
        report.batches += 1
        report.samples += len(batch["x"])
        _add(sums, step)
    read = dict(zip(sums, torch.stack(list(sums.values())).tolist(), strict=True)) if sums else {}
    report.refined = round(read.pop(_REFINED, 0.0))
    report.loss_sums = read
    learner.refuse_non_finite(read)
    report.published = method.end_round(learner)
    return report


def _add(sums: dict[str, Tensor], step: Step) -> None:
    """Sums in double precision on the device."""
    values = step.losses if step.refined is None else {**step.losses, _REFINED: step.refined}
    for name, value in values.items():
        if name in sums:
            sums[name] += value
        else:
            sums[name] = value.double()
