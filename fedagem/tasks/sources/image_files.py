"""Encoded images become one tensor."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2 import functional as transforms

from fedagem.errors import DataError


def decode_all(encoded: Iterable[tuple[str, bytes]], size: int | None = None) -> Tensor:
    """RGB images, n x 3 x h x w of uint8, from (name, file content) pairs; `size` makes all of them square.

    Refuses a file that is not an image, and images of different sizes if no `size` is given.
    """
    images: list[Tensor] = []
    for name, content in encoded:
        try:
            image = decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.RGB)
        except (RuntimeError, ValueError) as problem:
            raise DataError(f"{name} cannot be read as an image: {str(problem).splitlines()[0]}") from problem
        if size is not None and image.shape[-2:] != (size, size):
            image = transforms.resize(image, [size, size], antialias=True)
        if images and image.shape != images[0].shape:
            raise DataError(
                f"{name} is {image.shape[2]} x {image.shape[1]} pixels, others are {images[0].shape[2]} x "
                f"{images[0].shape[1]}: set data_loader.settings.dataset_settings.size to bring all to one size."
            )
        images.append(image)
    return torch.stack(images)
