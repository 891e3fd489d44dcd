"""Labelled images as whole tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from fedagem.errors import DataError
from fedagem.settings import suggestion


@dataclass(frozen=True)
class Labelled:
    """Inputs (images as uint8, n x c x h x w) with one label each."""

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


def digits(root: Path | None) -> Source:
    """scikit-learn's bundled 8 x 8 digits scaled to 28 x 28: real data, no download; every fifth is for testing."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    small = torch.from_numpy(bunch.images).float().unsqueeze(1) / 16
    large = functional.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    data = Labelled((large * 255).round().to(torch.uint8), torch.from_numpy(bunch.target).long())
    held_out = torch.arange(len(data)) % 5 == 4
    return Source(data[~held_out], data[held_out], classes=10)


def mnist(root: Path | None) -> Source:
    """MNIST through torchvision; `root` holds the four original files or torchvision's own copy of them."""
    from torchvision.datasets import MNIST

    if root is None:
        raise DataError(
            "the mnist data set needs data_loader.settings.root: the folder that holds (or will hold) MNIST."
        )
    try:
        parts = [MNIST(str(root), train=train, download=True) for train in (True, False)]
    except (RuntimeError, OSError) as problem:
        raise DataError(
            f"MNIST is not in {root} and could not be fetched ({problem}): put the four original .gz files into "
            f"{root / 'MNIST' / 'raw'}, or set data_loader.settings.root to the folder that has them."
        ) from problem
    train, test = (Labelled(part.data.unsqueeze(1), part.targets.long()) for part in parts)
    return Source(train, test, classes=10)


SOURCES: dict[str, Callable[[Path | None], Source]] = {"digits": digits, "mnist": mnist}


def load_source(name: str, root: str | None) -> Source:
    """The data set called `name`."""
    if name not in SOURCES:
        raise DataError(f"there is no data set {name!r}{suggestion(name, SOURCES)}")
    return SOURCES[name](Path(root).expanduser() if root else None)
