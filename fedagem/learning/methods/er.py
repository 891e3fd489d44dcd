"""ER: learns from the batch together with a sample of the buffer."""

import torch

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, ReplaySettings, Step


class ER(Method):
    """Experience replay: one step on the union of the batch and `replay_batch` stored samples."""

    Settings = ReplaySettings
    settings: ReplaySettings
    paper = "Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019"
    keeps = "its buffer"

    def observe(self, learner: Learner, batch: Batch) -> Step:
        union = batch
        if len(learner.buffer):
            replay = learner.buffer.sample(self.settings.replay_batch, learner.generator)
            union = {name: torch.cat([batch[name], values]) for name, values in replay.items()}
        view = learner.augment(union)
        return Step(learner.backward(learner.losses(learner.logits(view), view)), remember=batch)
