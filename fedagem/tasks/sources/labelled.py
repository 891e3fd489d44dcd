"""Labelled samples as whole tensors."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Labelled:
    """Inputs (images as uint8, n x c x h x w; features as float32, n x d) with one label each."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor | slice) -> "Labelled":
        return Labelled(self.x[index], self.y[index])


@dataclass(frozen=True)
class Source:
    """A data set, split for training and testing."""

    train: Labelled
    test: Labelled
    classes: int
