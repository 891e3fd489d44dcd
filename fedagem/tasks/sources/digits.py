"""scikit-learn's bundled digits: real data, no download."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from fedagem.tasks.sources.labelled import Labelled, Source


def digits(root: Path) -> Source:
    """The 8 x 8 digits scaled to 28 x 28; every fifth is for testing. They come with scikit-learn: `root` is unused."""
    rows = torch.from_numpy(np.loadtxt(_bundled_file(), delimiter=","))
    small = rows[:, :-1].reshape(-1, 1, 8, 8).float() / 16
    large = functional.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    data = Labelled((large * 255).round().to(torch.uint8), rows[:, -1].long())
    held_out = torch.arange(len(data)) % 5 == 4
    return Source(data[~held_out], data[held_out], classes=10)


def _bundled_file() -> Path:
    """The file itself: to import scikit-learn for it takes longer than to learn from it for a round."""
    package = find_spec("sklearn")
    assert package is not None, "scikit-learn is a dependency"
    return Path(str(package.origin)).parent / "datasets" / "data" / "digits.csv.gz"
