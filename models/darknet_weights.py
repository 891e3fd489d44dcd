"""Reads darknet's `.weights` files, so that published TinyYOLO weights can be the starting point.

The file is a header of three 32-bit integers (major, minor, revision) and the number of images seen (64 bits
since version 0.2, 32 before), then 32-bit floats, little-endian: per hidden layer the BatchNorm bias, scale,
mean and variance, then the kernel; per linear layer the bias, then the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from models.tiny_yolo import VOC_ANCHORS, TinyYolo

HEADER_INTEGERS = 3


def pretrained_tiny_yolo(
    weights: str | None,
    classes: Sequence[str],
    anchors: Sequence[Sequence[float]] = VOC_ANCHORS,
    input_size: Sequence[int] = (416, 416),
    statistics_momentum: float = 0.1,
    variant: Literal["voc", "coco"] = "voc",
) -> TinyYolo:
    """For plans: TinyYOLO at its published width, whose hidden layers start from a published weight file.

    `~` and environment variables in the path of the weights are expanded; the other settings are TinyYOLO's. Without
    a weight file the layers have random weights, to be filled from a file of the whole network.
    """
    model = TinyYolo(
        classes=classes,
        anchors=anchors,
        input_size=input_size,
        statistics_momentum=statistics_momentum,
        variant=variant,
    )
    if weights is not None:
        load_darknet_weights(model, Path(os.path.expandvars(weights)).expanduser(), with_head=False)
    return model


def load_darknet_weights(model: TinyYolo, path: Path, *, with_head: bool = True) -> int:
    """Fill the model from the file and return the number of images that the file says were seen.

    Without the head, only the hidden layers are taken, for other classes or anchors than the file's. A file whose
    number of values does not fit is refused and the model left as it was.
    """
    content = path.read_bytes()
    if len(content) < 4 * (HEADER_INTEGERS + 1):
        raise ValueError(f"{path} is not a darknet weight file: it has only {len(content)} bytes")
    major, minor, _ = torch.frombuffer(bytearray(content[:12]), dtype=torch.int32).tolist()
    if not (0 <= major < 1000 and 0 <= minor < 1000):
        raise ValueError(f"{path} is not a darknet weight file: it claims version {major}.{minor}")
    seen_bytes = 8 if major * 10 + minor >= 2 else 4
    start = 4 * HEADER_INTEGERS + seen_bytes
    seen = int.from_bytes(content[4 * HEADER_INTEGERS : start], "little")

    targets = _tensors_in_file_order(model, with_head)
    expected = sum(target.numel() for target in targets)
    found = (len(content) - start) / 4
    # What follows the hidden layers is a head: a kernel and a bias for each of its channels.
    beyond, channels = found - expected, model.head.in_channels + 1
    if beyond != 0 if with_head else beyond < channels or beyond % channels:
        needed = "variant, classes, number of anchors and width" if with_head else "the variant and the width"
        raise ValueError(
            f"{path} holds {found:g} values, this TinyYOLO needs {expected}{'' if with_head else ' and a head'}: "
            f"{needed} must be those of the weight file"
        )
    values = torch.frombuffer(bytearray(content[start : start + 4 * expected]), dtype=torch.float32)
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{path} holds values that are not finite numbers: the file is damaged")
    with torch.no_grad():
        for target, chunk in zip(targets, values.split([t.numel() for t in targets]), strict=True):
            target.copy_(chunk.view_as(target))
    return seen


def _tensors_in_file_order(model: TinyYolo, with_head: bool) -> list[Tensor]:
    tensors: list[Tensor] = []
    for block in model.conv_blocks():
        norm = block.normalisation
        assert norm.running_mean is not None
        assert norm.running_var is not None
        tensors += [norm.bias, norm.weight, norm.running_mean, norm.running_var, block.convolution.weight]
    assert model.head.bias is not None
    return [*tensors, model.head.bias, model.head.weight] if with_head else tensors
