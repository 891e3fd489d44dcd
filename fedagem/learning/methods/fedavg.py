"""FL: plain local SGD, averaged by the server."""

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step


class FedAvg(Method):
    """Learns from the current batch alone."""

    paper = "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"
    uses_buffer = False

    def observe(self, learner: Learner, batch: Batch) -> Step:
        view = learner.augment(batch)
        return Step(learner.backward(learner.losses(learner.logits(view), view)), remember=batch)
