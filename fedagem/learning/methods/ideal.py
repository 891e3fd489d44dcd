"""Ideal: a client with room for everything it ever saw, the upper bound that the others are measured against."""

import torch
from torch import Tensor

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, ReplaySettings, Step

FINGERPRINT = "fingerprint"
"""Names the number by which a stored sample is known again when another epoch brings it back."""


class Ideal(Method):
    """Joint training: every step learns from a uniform sample of all data so far, the new batch included.

    A step sees as many samples as a replay method's does (the batch plus `replay_batch`), so that what it gains
    is memory and not arithmetic. Each sample is kept once, however many epochs it is seen in.
    """

    Settings = ReplaySettings
    settings: ReplaySettings
    paper = "the upper bound of the paper's CARLA experiment"
    keeps = "all samples that it has seen"

    def observe(self, learner: Learner, batch: Batch) -> Step:
        new = self._never_seen(learner, batch)
        count = len(batch["x"]) + self.settings.replay_batch
        view = learner.augment(self._from_everything(learner, new, count))
        return Step(learner.backward(learner.losses(learner.logits(view), view)), remember=new)

    def _never_seen(self, learner: Learner, batch: Batch) -> Batch:
        known = {**batch, FINGERPRINT: fingerprints(batch["x"])}
        kept = learner.buffer.contents()
        if not kept:
            return known
        new = ~torch.isin(known[FINGERPRINT], kept[FINGERPRINT])
        return {name: values[new] for name, values in known.items()}

    def _from_everything(self, learner: Learner, new: Batch, count: int) -> Batch:
        stored, fresh = len(learner.buffer), len(new["x"])
        if stored + fresh > learner.buffer.capacity:
            raise PlanError(
                f"method ideal keeps every sample, but the buffer's capacity of {learner.buffer.capacity} is full: "
                "raise task_runner.settings.buffer.capacity."
            )
        chosen = torch.randperm(stored + fresh, generator=learner.generator)[:count]
        old, first = chosen[chosen < stored], chosen[chosen >= stored] - stored
        kept = learner.buffer.contents()
        if not kept:
            return {name: values[first] for name, values in new.items()}
        return {name: torch.cat([kept[name][old], values[first]]) for name, values in new.items()}


def fingerprints(x: Tensor) -> Tensor:
    """One 64-bit number per sample, equal for equal samples: a sum of all bytes with random odd weights."""
    samples = x.reshape(len(x), -1).view(torch.uint8).long()
    generator = torch.Generator().manual_seed(0)
    weights = torch.randint(-(2**63), 2**63 - 1, (samples.shape[1],), generator=generator) | 1
    return (samples * weights).sum(dim=1)
