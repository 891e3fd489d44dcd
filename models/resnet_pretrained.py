"""ResNet-18 that was trained on ImageNet before: the network of the Tiny-ImageNet experiments."""

import os
import pickle
from pathlib import Path

import torch
from torch import Tensor, nn
from torchvision.models import resnet18


class PretrainedResNet18(nn.Module):
    """torchvision's ResNet-18 with its published weights from a local file and a fresh classification layer.

    Inputs in [0, 1] are normalised as for ImageNet. Nothing is downloaded: `weights` is the file that torchvision
    publishes as resnet18-f37072fd.pth; `~` and environment variables in the path are expanded. Without it the network
    has random weights, to be filled from a file of the whole network.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, weights: str | None, classes: int = 200) -> None:
        super().__init__()
        self.network = resnet18(weights=None)
        if weights is not None:
            self.network.load_state_dict(_read(Path(os.path.expandvars(weights)).expanduser()))
        self.network.fc = nn.Linear(self.network.fc.in_features, classes)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network((x - self.mean) / self.deviation)
        return logits


def _read(path: Path) -> dict[str, Tensor]:
    """The weights; refuses a file that is missing or holds something else, saying what belongs there."""
    if not path.exists():
        raise ValueError(f"{path} does not exist: put torchvision's resnet18-f37072fd.pth there")
    try:
        weights: dict[str, Tensor] = torch.load(path, weights_only=True, map_location="cpu")
        expected = resnet18(weights=None).state_dict()
        different = {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in expected.items()}
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, AttributeError) as problem:
        raise ValueError(f"{path} is not a file of weights that torch can read") from problem
    if different:
        raise ValueError(f"{path} holds weights of another network than torchvision's resnet18")
    return weights
