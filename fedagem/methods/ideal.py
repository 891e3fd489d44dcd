"""Ideal: a client with room for everything it ever saw, the upper bound that the others are measured against."""

import torch

from fedagem.buffer import Batch
from fedagem.errors import PlanError
from fedagem.learner import Learner
from fedagem.methods.method import Method, Step


class Ideal(Method):
    """Joint training: every step learns from a uniform sample of all data so far, the new batch included.

    A step sees as many samples as a replay method's does (the batch plus `replay_batch`), so that what it gains
    is memory and not arithmetic.
    """

    def observe(self, learner: Learner, batch: Batch) -> Step:
        view = learner.augment(self._from_everything(learner, batch))
        losses = learner.backward(learner.losses(learner.logits(view), view))
        return Step(losses, remember=batch)

    def _from_everything(self, learner: Learner, batch: Batch) -> Batch:
        stored, new = len(learner.buffer), len(batch["x"])
        if learner.buffer.seen + new > learner.buffer.capacity:
            raise PlanError(
                f"method ideal keeps every sample, but the buffer's capacity of {learner.buffer.capacity} is full: "
                "raise task_runner.settings.buffer.capacity."
            )
        everything = torch.randperm(stored + new, generator=learner.generator)
        chosen = everything[: new + self.replay_batch]
        old, fresh = chosen[chosen < stored], chosen[chosen >= stored] - stored
        kept = learner.buffer.contents()
        if not kept:
            return {name: values[fresh] for name, values in batch.items()}
        return {name: torch.cat([kept[name][old], values[fresh]]) for name, values in batch.items()}
