"""The networks that the MNIST experiments are run with; their numbers are not comparable with each other."""

from torch import Tensor, nn


class McMahanCNN(nn.Sequential):
    """The CNN of McMahan et al. that the paper cites: 5x5 convolutions with 32 and 64 channels, 512 hidden units."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(),
            nn.Linear(512, classes),
        )


class SmallCNN(nn.Module):
    """The network of the authors' public code: 10 and 20 channels, dropout, 50 hidden units; 21,840 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, 20, 5),
            nn.Dropout2d(),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Dropout(), nn.Linear(50, classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


class LogisticRegression(nn.Sequential):
    """One linear layer on the pixels: the model with which simulators of many clients are compared."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__(nn.Flatten(), nn.Linear(28 * 28, classes))
