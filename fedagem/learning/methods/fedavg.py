"""FL: plain local SGD, averaged by the server."""

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step


class FedAvg(Method):
    """Learns from the current batch alone; its buffer serves Fed-A-GEM's g_ref and nothing else."""

    replays = False

    def observe(self, learner: Learner, batch: Batch) -> Step:
        view = learner.augment(batch)
        losses = learner.backward(learner.losses(learner.logits(view), view))
        return Step(losses, remember=batch)
