"""How a local gradient g is refined by a reference: projected so that it no longer points against it.

A-GEM refines by the gradient of the client's own buffer, Fed-A-GEM by g_ref, the average over all clients. Both
`project`, on `conflict`, at rate 1; the rest are the alternatives of the paper's ablation.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fedagem.settings import Settings


@dataclass(frozen=True)
class Reference:
    """A reference gradient with its squared norm, computed once."""

    gradient: Tensor
    squared_norm: Tensor

    @classmethod
    def of(cls, gradient: Tensor) -> "Reference":
        return cls(gradient, gradient.dot(gradient))

    @cached_property
    def inverse(self) -> Tensor:
        """1 / |g_ref|², or zero if there is nothing to refine with.

        Below the smallest normal number the square has lost its digits: such a gradient is zero to this arithmetic.
        """
        usable = self.squared_norm >= torch.finfo(self.gradient.dtype).tiny
        return torch.where(usable, self.squared_norm.reciprocal(), torch.zeros_like(self.squared_norm))


class Refinement(Settings):
    """A rule that changes g in place, given a reference."""

    how: Literal["project", "project_and_scale", "rotate", "average"] = "project"
    """How g is changed; Fed-A-GEM projects."""
    when: Literal["conflict", "always"] = "conflict"
    """In which case: when g points against g_ref, or in every step."""
    rate: float = Field(1.0, ge=0, le=1)
    """The share p of the cases in which the rule is applied."""

    def __call__(self, g: Tensor, reference: Reference, generator: torch.Generator) -> Tensor:
        """Refine g in place; the answer is 1 if it was changed and 0 if not, left on the device of g."""
        if self.rate < 1 and float(torch.rand((), generator=generator)) >= self.rate:
            return g.new_zeros(())
        g_ref, inverse = reference.gradient, reference.inverse
        dot = g.dot(g_ref)
        applies = inverse > 0
        if self.when == "conflict":
            applies = applies & (dot < 0)
        if self.how == "project":
            g.addcmul_(g_ref, torch.where(applies, dot * inverse, torch.zeros_like(dot)), value=-1)
        else:
            g.copy_(torch.where(applies, self._changed(g, g_ref, dot * inverse), g))
        return applies.to(g.dtype)

    def _changed(self, g: Tensor, g_ref: Tensor, share: Tensor) -> Tensor:
        if self.how == "average":
            return (g + g_ref) / 2
        changed = g + g_ref if self.how == "rotate" else g - share * g_ref
        # Give it the length that g had; a vector that vanished stays zero.
        return changed * torch.nan_to_num(g.norm() / changed.norm(), nan=0.0, posinf=0.0)
