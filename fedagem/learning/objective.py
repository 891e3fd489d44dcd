"""What is being learned: the seam between the methods and classification or detection."""

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar

import torch
from pydantic import BaseModel, Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.settings import Settings, Several, parse_settings


class Objective(ABC):
    """Turns stored samples into logits h(x; w) and logits into named loss terms."""

    @abstractmethod
    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """h(x; w) for the samples as the buffer keeps them (images as uint8)."""

    @abstractmethod
    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Named terms, each a mean over the batch; their sum is the loss."""

    def attach(self, network: nn.Module) -> None:  # noqa: B027
        """Called once with the network that logits will come from, for objectives that depend on its structure."""

    def check_stores_logits(self) -> None:  # noqa: B027
        """Refuse, before training, what a method that stores logits cannot work with."""

    def ready(self, batch: Batch) -> Batch:
        """What must be decided on the host, before the samples cross to the device: nothing, usually."""
        return batch

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        """A lightly changed view of the batch to train on; stored `logits` in it stay aligned with the view."""
        return batch

    def restore_logits(self, logits: Tensor, view: Batch) -> Tensor:
        """The logits of an augmented view, as they belong to the un-augmented samples."""
        return logits


class Normalisation(Settings):
    """Subtracts a mean from each channel and divides it by a deviation, after pixels were scaled to [0, 1]."""

    mean: Several[float] = Field(min_length=1)
    """One number per channel. The paper's text has no normalisation; the authors' code has [0.5071, 0.4865, 0.4409] for
    CIFAR-100, and [0.5, 0.5, 0.5] for CIFAR-10, which brings pixels to [-1, 1]."""
    std: Several[Annotated[float, Field(gt=0)]] = Field(min_length=1)
    """One number per channel; in the authors' code [0.2673, 0.2564, 0.2762] for CIFAR-100, and [0.5, 0.5, 0.5] for
    CIFAR-10."""

    @model_validator(mode="after")
    def _one_of_each(self) -> "Normalisation":
        if len(self.mean) != len(self.std):
            raise PlanError(
                f"task_runner.settings.objective.settings.normalisation has {len(self.mean)} means and "
                f"{len(self.std)} deviations: give one of each for every channel."
            )
        return self

    def __call__(self, pixels: Tensor) -> Tensor:
        """Normalised in place; refuses another number of channels."""
        if len(self.mean) != pixels.shape[1]:
            raise PlanError(
                f"task_runner.settings.objective.settings.normalisation has {len(self.mean)} means, but images have "
                f"{pixels.shape[1]} channels: give one for every channel."
            )
        mean, std = (torch.tensor(values, device=pixels.device).view(-1, 1, 1) for values in (self.mean, self.std))
        return pixels.sub_(mean).div_(std)


class ImageAugmentation(Settings):
    """Random crops and mirror images, a different one for each sample; 0 switches one off.

    The paper's text has no augmentation. The authors' code crops (4 pixels) and mirrors (0.5) CIFAR-100, and neither
    for CIFAR-10. It also keeps the changed images in the buffer; here the buffer keeps the images themselves, which are
    changed again whenever they are replayed.
    """

    crop: int = Field(0, ge=0)
    """Images get a black border of so many pixels, and a part of the original size is cut out; 4 in the authors' code
    for CIFAR-100."""
    flip: float = Field(0.0, ge=0, le=1)
    """The probability of a mirror image; 0.5 in the authors' code for CIFAR-100."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A changed copy of a whole batch, drawn on the CPU and computed on the device of the images."""
        device, height, width = images.device, *images.shape[-2:]
        down, across = torch.randint(2 * self.crop + 1, (2, len(images)), generator=generator).to(device)
        mirrored = (torch.rand(len(images), generator=generator) < self.flip).to(device)
        windows = functional.pad(images, [self.crop] * 4).unfold(2, height, 1).unfold(3, width, 1)
        cropped = windows[torch.arange(len(images), device=device), :, down, across]
        return torch.where(mirrored[:, None, None, None], cropped.flip(3), cropped)


class ClassificationSettings(Settings):
    """The `task_runner.settings.objective.settings` of a benchmark."""

    normalisation: Normalisation | None = None
    """How pixels are normalised; without it they are in [0, 1], as the paper's text leaves it."""
    augmentation: ImageAugmentation = Field(default_factory=ImageAugmentation)
    """How images are changed for training; not at all without it."""


class Classification(Objective):
    """Cross-entropy on class logits; images arrive as uint8 and are scaled to [0, 1].

    A class does not move with the pixels: logits of a cropped or mirrored image stand for the image itself.
    """

    Settings: ClassVar[type[BaseModel]] = ClassificationSettings

    def __init__(self, **settings: Any) -> None:
        """The settings are `ClassificationSettings`, in the plain values of a plan."""
        chosen = parse_settings(ClassificationSettings, settings, "task_runner.settings.objective.settings")
        self.normalisation = chosen.normalisation
        self.augmentation = chosen.augmentation if chosen.augmentation != ImageAugmentation() else None

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        x = batch["x"]
        if x.dtype == torch.uint8:
            x = x.float().div_(255)
            if self.normalisation is not None:
                x = self.normalisation(x)
        elif self.normalisation is not None:
            raise _only_for_images("normalisation", x)
        result: Tensor = model(x)
        return result

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"classification": functional.cross_entropy(logits, batch["y"])}

    def augment(self, batch: Batch, generator: torch.Generator) -> Batch:
        if self.augmentation is None:
            return batch
        if batch["x"].dtype != torch.uint8:
            raise _only_for_images("augmentation", batch["x"])
        return {**batch, "x": self.augmentation(batch["x"], generator)}


def _only_for_images(setting: str, x: Tensor) -> PlanError:
    return PlanError(
        f"task_runner.settings.objective.settings.{setting} is for images, but this data set has features of shape "
        f"{tuple(x.shape[1:])}: leave it out."
    )
