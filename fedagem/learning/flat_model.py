"""A model whose parameters and gradients are one flat tensor each.

Projection is then two dot products and one axpy, g_ref travels as one tensor, and the optimiser steps one tensor
instead of hundreds, all without copies: the model's own parameters and `.grad` are views.
"""

import torch
from torch import Tensor, nn


class FlatModel:
    """Wraps a module; its trainable parameters become views into `weights`, their gradients into `gradient`."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        parameters = [p for p in module.parameters() if p.requires_grad]
        if len({p.dtype for p in parameters}) != 1:
            raise ValueError("a flat model needs at least one trainable parameter, all of one dtype")
        self.weights = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        self.gradient = torch.zeros_like(self.weights)
        self.weights.grad = self.gradient
        flat_weights = self.weights.detach()
        offset = 0
        for parameter in parameters:
            window = slice(offset, offset + parameter.numel())
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
