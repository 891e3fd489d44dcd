"""What distinguishes one task of a sequence from the next."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as transforms

from fedagem.errors import PlanError
from fedagem.seeding import derive_generator


class Tasks(ABC):
    """A sequence of tasks made of one data set: which classes a task has, and how it changes the inputs."""

    sequential: ClassVar[bool] = False
    """Whether every task brings new classes; if not, only the domain changes."""

    def __init__(self, count: int, classes: int) -> None:
        self.count = count
        self.classes = classes

    def classes_of(self, task: int) -> range:
        """The classes that occur in a task; all of them if only the domain changes."""
        return range(self.classes)

    @abstractmethod
    def inputs(self, x: Tensor, task: int) -> Tensor:
        """The inputs as this task shows them, a whole batch at once."""


class RotatedTasks(Tasks):
    """Domain-IL: every task turns the images by another angle, drawn between 0 and `max_angle` degrees."""

    def __init__(self, count: int, classes: int, seed: int, max_angle: float = 180.0) -> None:
        super().__init__(count, classes)
        self.angles = (torch.rand(count, generator=derive_generator(seed, "angles")) * max_angle).tolist()

    def inputs(self, x: Tensor, task: int) -> Tensor:
        turned: Tensor = transforms.rotate(x, self.angles[task], interpolation=InterpolationMode.BILINEAR)
        return turned


class PermutedTasks(Tasks):
    """Domain-IL: every task shuffles the pixels by another permutation."""

    def __init__(self, count: int, classes: int, seed: int) -> None:
        super().__init__(count, classes)
        self.seed = seed

    def inputs(self, x: Tensor, task: int) -> Tensor:
        flat = x.flatten(1)
        order = torch.randperm(flat.shape[1], generator=derive_generator(self.seed, "permutation", task))
        return flat[:, order].view_as(x)


class SequentialTasks(Tasks):
    """Class- and task-IL: every task brings the next group of classes, disjoint from the others.

    Curriculum 0 takes the groups in order; every other number is another fixed order, for all seeds.
    """

    sequential = True

    def __init__(self, count: int, classes: int, curriculum: int = 0) -> None:
        super().__init__(count, classes)
        if classes % count:
            raise PlanError(
                f"data_loader.settings.tasks.count is {count}, but {classes} classes cannot be split into {count} "
                f"equal groups: use a divisor of {classes}."
            )
        order = torch.arange(count)
        if curriculum:
            order = torch.randperm(count, generator=derive_generator(curriculum, "curriculum"))
        self.order: list[int] = order.tolist()

    def classes_of(self, task: int) -> range:
        size = self.classes // self.count
        return range(self.order[task] * size, (self.order[task] + 1) * size)

    def inputs(self, x: Tensor, task: int) -> Tensor:
        return x
