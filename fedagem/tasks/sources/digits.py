"""scikit-learn's bundled digits: real data, no download."""

from pathlib import Path

import torch
from torch.nn import functional

from fedagem.tasks.sources.labelled import Labelled, Source


def digits(root: Path) -> Source:
    """The 8 x 8 digits scaled to 28 x 28; every fifth is for testing. They come with scikit-learn: `root` is unused."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    small = torch.from_numpy(bunch.images).float().unsqueeze(1) / 16
    large = functional.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    data = Labelled((large * 255).round().to(torch.uint8), torch.from_numpy(bunch.target).long())
    held_out = torch.arange(len(data)) % 5 == 4
    return Source(data[~held_out], data[held_out], classes=10)
