"""What a method exchanges besides the model: tensors of fixed shapes that the aggregator adds up."""

from dataclasses import dataclass
from typing import Literal

Combine = Literal["mean", "sum"]
StageName = Literal["buffer_gradient", "train", "end_task"]
"""The stages of a round in which clients may publish something."""


@dataclass(frozen=True)
class Exchange:
    """A float32 tensor that clients publish in a stage; announced with the initial model, so that the aggregator knows
    its shape before the first result arrives."""

    name: str
    shape: tuple[int, ...]
    stage: StageName
    combine: Combine = "mean"
    """Mean over the clients that contribute, weighted as the models are, or their plain sum."""
    keep: bool = False
    """Whether later rounds need what it adds up to; it is then part of the aggregator's checkpoint."""
    bound: float = 1024.0
    """The largest absolute value a client may send; a larger one is refused."""

    @property
    def announcement(self) -> str:
        """The name under which the initial model carries the shape."""
        return f"exchange/{self.stage}/{self.combine}/{'keep' if self.keep else 'drop'}/{self.bound:g}/{self.name}"

    @classmethod
    def announced(cls, announcement: str, shape: tuple[int, ...]) -> "Exchange":
        """The exchange that `announcement` named."""
        _, stage, combine, keep, bound, name = announcement.split("/", 5)
        return cls(name, shape, stage, combine, keep == "keep", float(bound))  # type: ignore[arg-type]
