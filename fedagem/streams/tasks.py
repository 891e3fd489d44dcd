"""What distinguishes one task of a sequence from the next."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as transforms

from fedagem.seeding import derive_generator


class Tasks(ABC):
    """A sequence of tasks made of one data set: which classes a task has, and how it changes the inputs."""

    def __init__(self, count: int, classes: int) -> None:
        self.count = count
        self.classes = classes

    def classes_of(self, task: int) -> range:
        """The classes that occur in a task; all of them where only the domain changes."""
        return range(self.classes)

    @abstractmethod
    def inputs(self, x: Tensor, task: int) -> Tensor:
        """The inputs as this task shows them, a whole batch at once."""


class RotatedTasks(Tasks):
    """Domain-IL: every task turns the images by an angle of its own, drawn between 0 and `max_angle` degrees."""

    def __init__(self, count: int, classes: int, seed: int, max_angle: float = 180.0) -> None:
        super().__init__(count, classes)
        self.angles = (torch.rand(count, generator=derive_generator(seed, "angles")) * max_angle).tolist()

    def inputs(self, x: Tensor, task: int) -> Tensor:
        turned: Tensor = transforms.rotate(x, self.angles[task], interpolation=InterpolationMode.BILINEAR)
        return turned


class PermutedTasks(Tasks):
    """Domain-IL: every task shuffles the pixels by a permutation of its own."""

    def __init__(self, count: int, classes: int, seed: int) -> None:
        super().__init__(count, classes)
        self.seed = seed

    def inputs(self, x: Tensor, task: int) -> Tensor:
        flat = x.flatten(1)
        order = torch.randperm(flat.shape[1], generator=derive_generator(self.seed, "permutation", task))
        return flat[:, order].view_as(x)
