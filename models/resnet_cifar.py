"""ResNet-18 for 32 x 32 images: torchvision's network with a 3x3 stem and no initial pooling."""

from torch import nn
from torchvision.models import ResNet, resnet18


def resnet18_cifar(classes: int = 10) -> ResNet:
    """The network of the CIFAR experiments."""
    network = resnet18(weights=None, num_classes=classes)
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return network
