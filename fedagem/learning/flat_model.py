"""A model whose parameters and gradients are one flat tensor each.

Projection is then two dot products and one axpy, g_ref travels as one tensor, and the optimiser steps one tensor
instead of hundreds, all without copies: the model's own parameters and `.grad` are views.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class FlatModel:
    """Wraps a module; its trainable parameters become views into `weights`, their gradients into `gradient`."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        parameters = list(named.values())
        if len({p.dtype for p in parameters}) != 1:
            raise ValueError("a flat model needs at least one trainable parameter, all of one dtype")
        self.weights = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        self.gradient = torch.zeros_like(self.weights)
        self.weights.grad = self.gradient
        flat_weights = self.weights.detach()
        self.windows: dict[str, slice] = {}
        """Which part of the flat vectors each parameter is."""
        offset = 0
        for name, parameter in named.items():
            window = self.windows[name] = slice(offset, offset + parameter.numel())
            parameter.data = flat_weights[window].view_as(parameter)
            parameter.grad = self.gradient[window].view_as(parameter)
            offset = window.stop

    @property
    def size(self) -> int:
        """How many trainable numbers the model has."""
        return self.weights.numel()

    def state_dict(self) -> dict[str, Tensor]:
        """The module's own state: named parameters and statistics (views, not copies)."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy a named state into the flat tensors; names and shapes must match exactly."""
        self.module.load_state_dict(state)

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Copy a global model as it travels; its weights cross to another device as one block."""
        for name, tensor in self._host_state.items():
            np.copyto(tensor.numpy(), arrays[name], casting="no")
        if self._host_weights is not None:
            with torch.no_grad():
                self.weights.copy_(self._host_weights, non_blocking=True)
                for name, tensor in self._other_tensors():
                    tensor.copy_(self._host_state[name], non_blocking=True)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The model as it travels: views of the flat tensors, or of their copy on the host; the next call reuses it."""
        if self._host_weights is not None:
            self._host_weights.copy_(self.weights.detach())
            for name, tensor in self._other_tensors():
                self._host_state[name].copy_(tensor)
        return {name: tensor.numpy() for name, tensor in self._host_state.items()}

    @contextmanager
    def unchanged_statistics(self) -> Iterator[None]:
        """Run a block, then put running statistics back to what they were."""
        saved = [statistic.clone() for statistic in self.module.buffers()]
        try:
            yield
        finally:
            with torch.no_grad():
                for statistic, value in zip(self.module.buffers(), saved, strict=True):
                    statistic.copy_(value)

    @cached_property
    def _host_weights(self) -> Tensor | None:
        """The flat weights' copy in pinned memory; None if they are in the host's memory themselves."""
        if self.weights.device.type == "cpu":
            return None
        return torch.empty_like(self.weights, device="cpu", requires_grad=False).pin_memory()

    @cached_property
    def _host_state(self) -> dict[str, Tensor]:
        """The model's state by name, in the host's memory."""
        state = self.state_dict()
        if (flat := self._host_weights) is None:
            return state
        return {
            name: flat[self.windows[name]].view(tensor.shape)
            if name in self.windows
            else torch.empty_like(tensor, device="cpu").pin_memory()
            for name, tensor in state.items()
        }

    def _other_tensors(self) -> list[tuple[str, Tensor]]:
        """What is not trained: statistics, frozen parameters."""
        return [(name, tensor) for name, tensor in self.state_dict().items() if name not in self.windows]
