"""`aggregator.settings.secure_aggregation` of a plan."""

import math
from typing import Any, Literal

from pydantic import Field, field_validator

from fedagem.settings import Settings, Several

FEWEST = 3
"""With two members, each would know the other's vector from the sum."""


class Ranges(Settings):
    """With `bits: 32`, the largest values that can be sent; a larger one is refused, never clipped."""

    model: float = Field(8.0, gt=0)
    """How far a weight may move in one round; a power of two."""
    g_ref: float = Field(8.0, gt=0)
    """The largest component of a buffer gradient; a power of two."""

    @field_validator("model", "g_ref")
    @classmethod
    def _power_of_two(cls, chosen: float) -> float:
        if math.frexp(chosen)[0] != 0.5:
            raise ValueError(f"is {chosen:g}, but must be a power of two, such as 8.")
        return chosen


class SecureAggregation(Settings):
    """How sums are protected; `{}` chooses the defaults, and without the setting averages are made in the clear."""

    stages: Several[str] = Field(("buffer_gradient", "train"), min_length=1)
    """The stages whose results are masked; add `evaluate` to hide each client's counts."""
    bits: Literal[64, 32] = 64
    """64: exactly the numbers of a plain run, for twice its upload; 32: the upload of a plain run, and rounded sums."""
    threshold: float = Field(0.67, ge=0.5, lt=1)
    """The share of the members of whom one more has to help to open a sum: floor(threshold * members) + 1."""
    cutoff_seconds: float | None = Field(None, gt=0)
    """How long to wait for the others, in any stage, once enough have answered; null waits for everybody."""
    min_contributors: int = Field(FEWEST, ge=FEWEST)
    """A sum over fewer clients that have something to contribute is not opened."""
    range: Ranges = Field(default_factory=Ranges)
    """With `bits: 32`, the largest values that can be sent; a larger one is refused, never clipped."""
    metrics: Literal["mean", "none", "each"] = "mean"
    """Clients' metrics of these stages: their masked mean, nothing, or each client's own in the clear."""
    rekey_every: int = Field(10, ge=1)
    """For how many rounds keys are dealt at once; every sum has keys of its own."""
    trust: Literal["pinned", "ca"] = "pinned"
    """Whose keys are accepted: certificates named in plan/members.yaml, or any of the federation's authority."""

    @field_validator("stages")
    @classmethod
    def _each_once(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"names a stage twice: {', '.join(chosen)}.")
        return chosen

    def helpers(self, members: int) -> int:
        """How many of the members have to help to open a sum."""
        return min(members, math.floor(self.threshold * members) + 1)


def not_openfls(chosen: Any) -> Any:
    """Refuse OpenFL's own switch, which our aggregator and collaborators do not use."""
    if isinstance(chosen, bool):
        wanted = "leave it out" if not chosen else "write a mapping, {} for the defaults"
        raise ValueError(f"is {str(chosen).lower()}, which is OpenFL's own form and protects nothing here: {wanted}.")
    return chosen
