"""GPM: each layer learns only at right angles to what it has seen in earlier tasks."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.layers import freeze_batch_norm, has_batch_norm, layers_of, protected_layers, visit_inputs
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import G_REF
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.method import Step
from fedagem.learning.subspace import Inputs, grow, remove
from fedagem.settings import Settings

_BASES, _ENDED = "bases", "ended"


class GPMSettings(Settings):
    """The settings of GPM."""

    first_threshold: float | None = Field(None, ge=0, le=1)
    """The share of its inputs' energy that the first layer's basis holds; by default 0.95, 0.965 with BatchNorm."""
    threshold: float | None = Field(None, ge=0, le=1)
    """The same for the other layers; by default 0.99, 0.965 with BatchNorm."""
    threshold_growth: float = Field(0.0, ge=0, le=1)
    """What is added to both thresholds after each task, up to 1."""
    samples: int = Field(300, ge=1)
    """How many samples of a task its subspace is computed from."""
    batch_norm: Literal["freeze", "train"] = "freeze"
    """Whether BatchNorm, which no subspace can protect, is frozen after the first task or goes on learning."""
    protect_head: bool | None = None
    """Whether the last layer is protected, too; by default if only the domain changes, not if tasks bring classes."""
    project_reference: bool = False
    """Whether g_ref is projected before it refines g; if not, refined gradients leave the complement a little."""


class GPM(FedAvg):
    """G <- G - (G U) U' in each layer, with U the principal directions of its inputs in earlier tasks."""

    Settings = GPMSettings
    settings: GPMSettings
    paper = "Saha et al., Gradient Projection Memory for Continual Learning, ICLR 2021"
    keeps = "a basis for each layer; with Fed-A-GEM its buffer, too"
    needs_boundaries = True
    detects = False

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        """One number, so that the stage at the end of a task takes place; the bases stay with their client."""
        layers_of(model)  # refuses a network that cannot be protected
        return [Exchange(_ENDED, (1,), "end_task", "sum")]

    def prepare(self, learner: Learner) -> None:
        super().prepare(learner)
        if self.settings.batch_norm == "freeze":
            freeze_batch_norm(learner)

    def begin_round(self, learner: Learner) -> None:
        bases: dict[str, Tensor] = learner.kept.get(_BASES, {})
        layers = [layer for layer in layers_of(learner.model) if layer.name in bases]
        learner.notes[_BASES] = [(layer, bases[layer.name].to(learner.device)) for layer in layers]
        if self.settings.project_reference and G_REF in learner.received:
            learner.received = {**learner.received, G_REF: learner.received[G_REF].clone()}
            self._project(learner, learner.received[G_REF])

    def observe(self, learner: Learner, batch: Batch) -> Step:
        step = super().observe(learner, batch)
        self._project(learner, learner.gradient)
        return step

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        """Add to each basis what it lacks to hold the inputs of its layer in this task."""
        assert learner.data is not None
        layers = protected_layers(learner, self.settings.protect_head)
        seen = {layer.name: Inputs(layer.inner) for layer in layers}
        samples = learner.data.samples()
        chosen = torch.randperm(len(samples["x"]), generator=learner.generator)[: self.settings.samples]
        some = {name: values[chosen] for name, values in samples.items()}
        visit_inputs(learner, layers, some, lambda layer, columns: seen[layer.name].add(columns))
        bases = dict(learner.kept.get(_BASES, {}))
        for place, layer in enumerate(layers):
            basis = bases.get(layer.name, torch.zeros(layer.inner, 0)).to(learner.device)
            bases[layer.name] = grow(basis, seen[layer.name], self._threshold(learner, first=place == 0)).cpu()
        learner.kept[_BASES] = {name: basis for name, basis in bases.items() if basis.shape[1]}
        return {_ENDED: torch.ones(1)}

    def _project(self, learner: Learner, flat: Tensor) -> None:
        for layer, basis in learner.notes.get(_BASES, ()):
            remove(basis, *layer.parts(flat))

    def _threshold(self, learner: Learner, first: bool) -> float:
        assert learner.task is not None
        given = self.settings.first_threshold if first else self.settings.threshold
        usual = 0.965 if has_batch_norm(learner.model) else 0.95 if first else 0.99
        return min(1.0, (usual if given is None else given) + self.settings.threshold_growth * learner.task.index)
