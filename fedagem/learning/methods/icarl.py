"""iCaRL: exemplars, the old model's outputs as targets, and the nearest class mean as the classifier.

Clients publish for each class the sum of their exemplars' features and their number; what all of them add up to gives
the exact means over the exemplars of the federation, and no exemplar leaves its client.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange, StageName
from fedagem.learning.exemplars import features, head_of
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.exemplar_replay import ExemplarReplay, ExemplarSettings, one_hot
from fedagem.learning.server_side import RemembersPreviousModel, ServerSide

_SUMS, _COUNTS, _KNOWN = "class_sums", "class_counts", "has_means"
_MOST_EXEMPLARS = 1e6
"""How many exemplars of a class a client may have; features have length 1, so no sum is larger."""


class ICaRLSettings(ExemplarSettings):
    """The settings of iCaRL."""

    classifier: Literal["nearest_mean", "head"] = "nearest_mean"
    """What answers in evaluations: the class whose exemplars' mean feature is nearest, or the network's outputs."""


class ICaRL(ExemplarReplay):
    """Learns new classes one-hot and old ones as the old model knew them."""

    Settings = ICaRLSettings
    settings: ICaRLSettings
    paper = "Rebuffi et al., iCaRL: Incremental Classifier and Representation Learning, CVPR 2017"
    keeps = "exemplars of each class: they are its buffer"

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        head = head_of(model.module)
        return [
            Exchange(name, shape, "end_task", "sum", keep=True, bound=_MOST_EXEMPLARS)
            for name, shape in {
                _SUMS: (head.out_features, head.in_features),
                _COUNTS: (head.out_features,),
            }.items()
        ]

    def wants(self, stage: StageName | Literal["evaluate"]) -> list[str]:
        return [_SUMS, _COUNTS] if stage == "evaluate" and self.settings.classifier == "nearest_mean" else []

    def server_side(self, exchanges: list[Exchange]) -> ServerSide:
        return RemembersPreviousModel(exchanges)

    def sigmoid_losses(self, learner: Learner, logits: Tensor, view: Batch) -> dict[str, Tensor]:
        targets = self.taught(learner, one_hot(logits, view), view)
        return {"classification": self.cross_entropies(learner, logits, targets).mean()}

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        super().end_task(learner)
        head, exemplars = head_of(learner.model.module), learner.buffer.contents()
        sums = torch.zeros(head.out_features, head.in_features, device=learner.device)
        counts = torch.zeros(head.out_features, device=learner.device)
        if exemplars:
            labels = exemplars["y"].to(learner.device)
            sums.index_add_(0, labels, features(learner, exemplars))
            counts.index_add_(0, labels, torch.ones_like(labels, dtype=counts.dtype))
        return {_SUMS: sums, _COUNTS: counts}

    def scores(self, learner: Learner, view: Batch) -> Tensor:
        """The nearer a class mean, the higher its score; before the end of the first task, the network's outputs."""
        if not self._has_means(learner):
            return super().scores(learner, view)
        counts = learner.received[_COUNTS]
        means = functional.normalize(learner.received[_SUMS], dim=1)
        distances = torch.cdist(features(learner, view), means, compute_mode="donot_use_mm_for_euclid_dist")
        return (-distances.square()).masked_fill(counts == 0, -torch.inf)

    @staticmethod
    def _has_means(learner: Learner) -> bool:
        """Whether a task has ended: read from the device once in an evaluation, not for every batch."""
        if _KNOWN not in learner.notes:
            counts = learner.received.get(_COUNTS)
            learner.notes[_KNOWN] = counts is not None and bool(counts.any())
        known: bool = learner.notes[_KNOWN]
        return known
