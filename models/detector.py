"""What a network must offer to be trained and used as a detector here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from models.detections import Candidates


class Detector(nn.Module):
    """A network that finds objects in images of one size."""

    classes: tuple[str, ...]
    """The names of the classes, in the order of their labels."""
    input_size: tuple[int, int]
    """Width and height of the input in pixels."""


class AnyDetector(Detector, ABC):
    """A detector that knows its own loss: one's own network behind this interface runs under the methods here.

    `boxes` (N, slots, 5) are the objects of each image: class, then centre, width and height relative to the input; a
    class of -1 marks a slot that is not used.
    """

    fixed_head: ClassVar[bool] = False
    """Whether `forward` returns one tensor (N, ...) whose shape depends on the input's size alone. Methods that store
    the outputs of a network, such as DER, need that."""

    @abstractmethod
    def forward(self, images: Tensor, boxes: Tensor | None = None) -> Any:
        """The raw outputs for images (N, 3, H, W) in [0, 1]; `boxes` are given if a loss will be asked for."""

    @abstractmethod
    def losses(self, raw: Any, boxes: Tensor) -> dict[str, Tensor]:
        """Named terms, each a mean over the images; their sum is the loss."""

    @abstractmethod
    def candidates(self, raw: Any) -> Candidates:
        """What the outputs say of every place; thresholds and suppression are done by others."""
