"""Every attack of an audit, and what came of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedagem.audit.inversion import images_from
from fedagem.audit.received import KeptRound
from fedagem.learning.flat_model import FlatModel

RECONSTRUCTED = 20.0
"""From this peak signal-to-noise ratio on, in dB, an image counts as reconstructed."""
_MOST_IMAGES = 32


@dataclass(frozen=True)
class Finding:
    """What one vector gave away."""

    source: str
    """What was attacked."""
    samples: int
    """How many samples went into it."""
    images: Tensor
    """The true images, in [0, 1]."""
    guesses: Tensor
    """For each of them, the reconstruction that is most like it."""
    psnr: list[float]
    """How alike they are, in dB."""

    @property
    def reconstructed(self) -> int:
        """How many images were found."""
        return sum(value >= RECONSTRUCTED for value in self.psnr)

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.reconstructed:
            return "nothing reconstructed"
        return f"{self.reconstructed} of {len(self.psnr)} images reconstructed"


def findings(kept: KeptRound, clients: int, samples: Sequence[int]) -> Iterator[Finding]:
    """Attack what was received of some clients, smaller gradients of the same buffers, and the mean of all."""
    chosen = kept.clients[:clients]
    for client in chosen:
        truth = kept.samples(client)["x"]
        yield attack(kept.trainer.model, kept.received(client), truth, f"received from {client}")
    for count in (count for count in samples if count != kept.batch):
        for client in chosen:
            gradient = kept.gradient(client, count).numpy()
            truth = kept.samples(client, count)["x"]
            yield attack(kept.trainer.model, gradient, truth, f"gradient of {count} of {client}")
    everything = torch.cat([kept.samples(client)["x"] for client in kept.clients])
    yield attack(kept.trainer.model, kept.mean(), everything, "mean of all clients")


def attack(model: FlatModel, vector: np.ndarray, truth: Tensor, source: str) -> Finding:
    """Look for images in a vector of any kind, and compare them with the true ones."""
    images = truth.float() / 255 if truth.dtype == torch.uint8 else truth.float()
    numbers = torch.from_numpy(np.nan_to_num(vector.astype(np.float64)))
    numbers = numbers / max(float(numbers.abs().max()), 1e-30)
    generator = torch.Generator().manual_seed(0)
    found = images_from(model, numbers, min(len(images), _MOST_IMAGES), tuple(images.shape[1:]), generator)
    alike = torch.stack([psnr(found, image) for image in images])
    best = alike.argmax(dim=1)
    return Finding(source, len(images), images, found[best], alike.amax(dim=1).tolist())


def psnr(images: Tensor, image: Tensor) -> Tensor:
    """The peak signal-to-noise ratios of some images to one, whose pixels are in [0, 1]."""
    errors = (images - image).square().flatten(1).mean(dim=1).clamp_min(1e-10)
    return -10 * torch.log10(errors) if math.prod(image.shape) else errors
