"""A-GEM: the gradient must not point against the gradient of the client's own buffer."""

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, ReplaySettings, Step
from fedagem.learning.refinement import Reference, Refinement


class AGEM(Method):
    """Algorithm "A-GEM ClientUpdate": projects g_c by the local buffer gradient g_b."""

    Settings = ReplaySettings
    settings: ReplaySettings
    paper = "Chaudhry et al., Efficient Lifelong Learning with A-GEM, ICLR 2019"
    keeps = "its buffer"
    project = Refinement(how="project", when="conflict")

    def observe(self, learner: Learner, batch: Batch) -> Step:
        replay = learner.replay(self.settings.replay_batch)
        g_b = None
        if replay is not None:
            learner.backward(learner.losses(learner.logits(replay), replay))
            g_b = Reference.of(learner.gradient.clone())
        view = learner.augment(batch)
        losses = learner.backward(learner.losses(learner.logits(view), view))
        if g_b is not None:
            self.project(learner.gradient, g_b, learner.generator)
        return Step(losses, remember=batch)
