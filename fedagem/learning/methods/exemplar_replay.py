"""What iCaRL and GLFC have in common: sigmoid outputs, herded exemplars, and the old model as a teacher."""

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fedagem.learning.buffer import Batch
from fedagem.learning.exemplars import keep_exemplars
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method, Step
from fedagem.settings import Settings

_SEEN, _OLD = "seen", "old"


class ExemplarSettings(Settings):
    """The settings of methods that replay exemplars."""

    reduction: Literal["mean", "sum"] = "mean"
    """How the cross-entropies of the classes seen so far make the loss of a sample. With their mean, as in mammoth, the
    step for each output shrinks with the number of classes: raise the learning rate, or take the sum."""


class ExemplarReplay(Method):
    """Binary cross-entropy for each class seen so far, on batches with exemplars of the earlier tasks mixed in.

    Outputs of classes to come are not trained, and never an answer.
    """

    Settings = ExemplarSettings
    settings: ExemplarSettings
    fills_buffer = True
    needs_boundaries = True
    needs_previous_model = True
    detects = False
    scenarios = frozenset({"class_il", "task_il"})

    def observe(self, learner: Learner, batch: Batch) -> Step:
        assert learner.data is not None
        view = learner.augment(batch)
        share = len(learner.buffer) / len(learner.data.samples()["x"])
        if (replay := learner.replay(max(round(share * len(batch["x"])), 1))) is not None:
            view = {name: torch.cat([view[name], values]) for name, values in replay.items()}
        losses = self.sigmoid_losses(learner, learner.logits(view), view)
        return Step(learner.backward(losses), remember=None)

    @abstractmethod
    def sigmoid_losses(self, learner: Learner, logits: Tensor, view: Batch) -> dict[str, Tensor]:
        """The method's own loss terms of a batch with exemplars."""

    def reference(self, learner: Learner, view: Batch) -> dict[str, Tensor]:
        logits = learner.logits(view)
        return {"classification": self.cross_entropies(learner, logits, one_hot(logits, view)).mean()}

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        keep_exemplars(learner)
        return {}

    def scores(self, learner: Learner, view: Batch) -> Tensor:
        return among_seen(learner, learner.logits(view))

    def cross_entropies(self, learner: Learner, logits: Tensor, targets: Tensor) -> Tensor:
        """One number per sample: the binary cross-entropies of the classes seen so far."""
        seen = _columns(learner, _SEEN)
        each = functional.binary_cross_entropy_with_logits(logits[:, seen], targets[:, seen], reduction="none")
        return each.mean(dim=1) if self.settings.reduction == "mean" else each.sum(dim=1)

    @staticmethod
    def taught(learner: Learner, targets: Tensor, view: Batch) -> Tensor:
        """The targets, with what the old model says about the classes that it knows; the new ones stay."""
        if learner.teacher is None:
            return targets
        with torch.no_grad():
            opinion = learner.logits_of(learner.teacher, view).sigmoid()
        old = _columns(learner, _OLD)
        return targets.index_copy(1, old, opinion[:, old])


def among_seen(learner: Learner, logits: Tensor) -> Tensor:
    """The logits as scores: classes to come have none."""
    seen = _columns(learner, _SEEN)
    return torch.full_like(logits, -torch.inf).index_copy(1, seen, logits[:, seen])


def one_hot(logits: Tensor, view: Batch) -> Tensor:
    """1 for the class of each sample, 0 for all others."""
    return (view["y"][:, None] == torch.arange(logits.shape[1], device=logits.device)).to(logits.dtype)


def of_old_class(learner: Learner, view: Batch) -> Tensor:
    """Which samples belong to a class of an earlier task."""
    return (view["y"][:, None] == _columns(learner, _OLD)).any(dim=1)


def _columns(learner: Learner, which: str) -> Tensor:
    """The classes seen so far, or those of earlier tasks, on the model's device; they cross to it once a round."""
    if which not in learner.notes:
        task = learner.task
        assert task is not None
        labels = [*task.earlier, *task.classes] if which == _SEEN else task.earlier
        learner.notes[which] = torch.tensor(sorted(labels), dtype=torch.int64, device=learner.device)
    columns: Tensor = learner.notes[which]
    return columns
