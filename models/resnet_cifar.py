"""ResNet-18 for 32 x 32 images: a 3x3 stem and no initial pooling."""

from torch import nn
from torchvision.models.resnet import BasicBlock


def resnet18_cifar(classes: int = 10, width: int = 64) -> nn.Sequential:
    """The network of the CIFAR experiments; `width` is the channels of its stem, 64 in the paper.

    A quarter of the width costs a sixteenth of the arithmetic, for experiments on small machines.
    """
    network = nn.Sequential(
        nn.Conv2d(3, width, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        *_stage(width, width, stride=1),
        *_stage(width, 2 * width, stride=2),
        *_stage(2 * width, 4 * width, stride=2),
        *_stage(4 * width, 8 * width, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _stage(incoming: int, channels: int, stride: int) -> list[nn.Module]:
    """Two basic blocks; the first one changes resolution and channels."""
    shortcut = None
    if stride != 1 or incoming != channels:
        shortcut = nn.Sequential(
            nn.Conv2d(incoming, channels, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(channels)
        )
    return [BasicBlock(incoming, channels, stride, shortcut), BasicBlock(channels, channels)]
