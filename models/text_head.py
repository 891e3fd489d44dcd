"""The linear layer that learns on top of a frozen text encoder."""

from torch import nn


class TextHead(nn.Linear):
    """Class logits from the encoder's features."""

    def __init__(self, features: int = 768, classes: int = 10) -> None:
        super().__init__(features, classes)
