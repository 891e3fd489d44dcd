"""FOT: the server keeps the averaged update at right angles to what all clients' layers have seen in earlier tasks."""

import torch
from pydantic import Field
from torch import Tensor

from fedagem.learning.buffer import Batch
from fedagem.learning.exchange import Exchange
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.layers import Layer, freeze_batch_norm, layers_of, protected_layers, visit_inputs
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fot_server import SKETCH, FOTServer
from fedagem.learning.methods.method import Step
from fedagem.settings import Settings

_LARGEST = 1e9
"""What no number of a sketch exceeds: the square root of the number of inputs times their size, a few times over."""


class FOTSettings(Settings):
    """The settings of FOT."""

    threshold: float | None = Field(None, ge=0, le=1)
    """The share of the energy of all clients' inputs that a layer's subspace holds; by default 0.94, or 0.9 with
    BatchNorm."""
    threshold_growth: float | None = Field(None, ge=0, le=1)
    """What is added to the threshold after each task, up to 1; by default 0, or 0.001 with BatchNorm."""
    sketch: int = Field(512, ge=1)
    """How many random combinations of a layer's inputs a client sends; never more than the layer has inputs."""


class FOT(FedAvg):
    """Clients train as in FedAvg, and at the end of a task send R Omega for the inputs R of each layer."""

    Settings = FOTSettings
    settings: FOTSettings
    paper = "Bakman et al., Federated Orthogonal Training, ICLR 2024"
    needs_boundaries = True
    detects = False
    scenarios = frozenset({"domain_il", "task_il"})

    def exchanges(self, model: FlatModel) -> list[Exchange]:
        return [
            Exchange(f"{SKETCH}{layer.name}", self._shape(layer), "end_task", "sum", bound=_LARGEST)
            for layer in layers_of(model)
        ]

    def server_side(self, exchanges: list[Exchange]) -> FOTServer:
        return FOTServer(exchanges, self.settings.threshold, self.settings.threshold_growth)

    def prepare(self, learner: Learner) -> None:
        super().prepare(learner)
        freeze_batch_norm(learner)

    def observe(self, learner: Learner, batch: Batch) -> Step:
        view = learner.augment(batch)
        return Step(learner.backward(self.reference(learner, view)), remember=batch)

    def reference(self, learner: Learner, view: Batch) -> dict[str, Tensor]:
        """The losses if only the classes of each sample's own task compete: one head for each task in effect."""
        assert learner.task is not None
        logits = learner.logits(view)
        if learner.task.sequential:
            logits = logits.masked_fill(~own_task(view["y"], learner.task.classes, logits.shape[1]), -torch.inf)
        return learner.losses(logits, view)

    def end_task(self, learner: Learner) -> dict[str, Tensor]:
        """The sketches; that of a layer that is not protected stays zero."""
        assert learner.data is not None
        sketches = {
            layer.name: torch.zeros(self._shape(layer), device=learner.device) for layer in layers_of(learner.model)
        }

        def add(layer: Layer, columns: Tensor) -> None:
            omega = torch.randn(columns.shape[1], self._shape(layer)[1], generator=learner.generator)
            sketches[layer.name].addmm_(columns.float(), omega.to(learner.device))

        visit_inputs(learner, protected_layers(learner), learner.data.samples(), add)
        return {f"{SKETCH}{name}": sketch for name, sketch in sketches.items()}

    def _shape(self, layer: Layer) -> tuple[int, int]:
        return layer.inner, min(layer.inner, self.settings.sketch)


def own_task(labels: Tensor, task: range, classes: int) -> Tensor:
    """Which classes are of the same task as each label; tasks are groups of neighbouring classes, all of one size."""
    group = torch.arange(classes, device=labels.device) // len(task)
    return group == (labels // len(task)).unsqueeze(1)
