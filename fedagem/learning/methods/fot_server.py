"""The server of FOT: collects the subspaces of all clients' inputs, and keeps averaged updates out of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedagem.learning.exchange import Exchange, StageName
from fedagem.learning.server_side import Array, Model, ServerSide
from fedagem.learning.subspace import Inputs, grow, remove

SKETCH = "sketch/"
"""Begins the name of a layer's sketch; the rest is the name of its weight."""


class FOTServer(ServerSide):
    """Bases by the name of a layer's weight: they are made of sums over the clients and never sent to anybody."""

    def __init__(self, exchanges: list[Exchange], threshold: float | None, growth: float | None) -> None:
        super().__init__(exchanges)
        self._threshold, self._growth = threshold, growth
        self._sketches: Mapping[str, Array] = {}
        self._tasks = 0
        """How many tasks are over."""
        self.bases: dict[str, Tensor] = {}

    def step(self, old: Model, averaged: Model) -> Model:
        """W_new = W_old + D - (D U) U' with D = W_avg - W_old; a layer without a basis is the average itself."""
        new = dict(averaged)
        for weight, basis in self.bases.items():
            bias = weight.removesuffix("weight") + "bias"
            names = [weight, bias] if len(basis) > averaged[weight][0].size else [weight]
            update = {name: torch.from_numpy(averaged[name] - old[name]) for name in names}
            remove(basis, update[weight].flatten(1), update.get(bias))
            new |= {name: old[name] + part.numpy() for name, part in update.items()}
        return new | {name: old[name] for name in _batch_norm(averaged)} if self._tasks else new

    def take(self, stage: StageName, combined: Mapping[str, Array]) -> None:
        super().take(stage, combined)
        if stage == "end_task":
            self._sketches = {name.removeprefix(SKETCH): array for name, array in combined.items()}

    def end_task(self, model: Model) -> None:
        """Let each basis hold enough of the sum of sketches, a sketch of all clients' inputs together."""
        normalised = bool(_batch_norm(model))
        threshold = self._threshold if self._threshold is not None else 0.9 if normalised else 0.94
        growth = self._growth if self._growth is not None else 0.001 if normalised else 0.0
        for weight, sketch in self._sketches.items():
            inputs = Inputs(len(sketch))
            inputs.add(torch.from_numpy(sketch))
            basis = self.bases.get(weight, torch.zeros(len(sketch), 0))
            grown = grow(basis, inputs, min(1.0, threshold + growth * self._tasks))
            if grown.shape[1]:
                self.bases[weight] = grown
        self._sketches = {}
        self._tasks += 1

    def state_dict(self) -> dict[str, Any]:
        bases = {weight: basis.numpy() for weight, basis in self.bases.items()}
        return {**super().state_dict(), "tasks": self._tasks, "bases": bases}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._tasks = state["tasks"]
        self.bases = {weight: torch.from_numpy(np.array(basis)) for weight, basis in state["bases"].items()}


def _batch_norm(model: Model) -> list[str]:
    """The tensors of layers that have running statistics."""
    layers = {name.rpartition(".")[0] for name in model if name.rpartition(".")[2] == "running_mean"}
    return [name for name in model if name.rpartition(".")[0] in layers]
