"""YOLOv2-tiny, the detector of the paper's CARLA experiment, with a width multiplier for small machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator
from torch import Tensor, nn

from models.detector import Detector

STRIDE = 32
LEAKY_SLOPE = 0.1
PUBLISHED_CHANNELS = {
    "voc": (16, 32, 64, 128, 256, 512, 1024, 1024),
    "coco": (16, 32, 64, 128, 256, 512, 1024, 512),
}
"""Channels of the hidden layers, by the data set that the network was published for."""
POOLED_LAYERS = 5
OBJECT_PRIOR = 0.1

COCO_ANCHORS = ((0.57273, 0.677385), (1.87446, 2.06253), (3.33843, 5.47434), (7.88282, 3.52778), (9.77052, 9.16828))
VOC_ANCHORS = ((1.08, 1.19), (3.42, 4.41), (6.63, 11.38), (9.42, 5.11), (16.62, 10.52))


Size = Annotated[tuple[int, int], Strict(False)]
Anchor = Annotated[tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], Strict(False)]


class TinyYoloConfig(BaseModel):
    """All that is needed to build the network again: it travels with the weights."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    classes: Annotated[tuple[str, ...], Strict(False)] = Field(min_length=1)
    """The names of the classes, in the order of their labels."""
    anchors: Annotated[tuple[Anchor, ...], Strict(False)] = Field(VOC_ANCHORS, min_length=1)
    """Width and height of each anchor in grid cells of 32 input pixels, as published."""
    input_size: Size = (416, 416)
    """Width and height of the input in pixels, multiples of 32."""
    width: float = Field(1.0, gt=0)
    """What the number of channels of every hidden layer is multiplied by."""
    variant: Literal["voc", "coco"] = "voc"
    """The published network whose layers these are; that for COCO has a last hidden layer of half the channels."""
    statistics_momentum: float = Field(0.1, gt=0, le=1)
    """The weight of one batch in BatchNorm's running statistics. The batches of a drive are frames of one street, so
    there a small weight (darknet's own is 0.01) keeps the statistics from following the last one."""

    @field_validator("classes")
    @classmethod
    def _different_classes(cls, classes: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(classes)) != len(classes):
            raise ValueError(f"must be different names, not {list(classes)}.")
        return classes

    @field_validator("input_size")
    @classmethod
    def _whole_cells(cls, size: tuple[int, int]) -> tuple[int, int]:
        if any(side <= 0 or side % STRIDE for side in size):
            raise ValueError(f"must be a width and a height that are multiples of {STRIDE}, not {list(size)}.")
        return size

    def to_settings(self) -> dict[str, Any]:
        """The plain values of a plan: lists and numbers that YAML and JSON keep."""
        return self.model_dump(mode="json")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the head map."""
        return self.input_size[1] // STRIDE, self.input_size[0] // STRIDE

    @property
    def head_channels(self) -> int:
        return len(self.anchors) * (5 + len(self.classes))


class ConvBlock(nn.Sequential):
    """3x3 convolution without bias, batch normalisation, leaky ReLU: darknet's hidden layer.

    The bias is BatchNorm's, as in darknet, so that published weights map one to one.
    """

    def __init__(self, channels_in: int, channels_out: int, statistics_momentum: float) -> None:
        convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, a=LEAKY_SLOPE, nonlinearity="leaky_relu")
        normalisation = nn.BatchNorm2d(channels_out, momentum=statistics_momentum)
        super().__init__(convolution, normalisation, nn.LeakyReLU(LEAKY_SLOPE, inplace=True))

    @property
    def convolution(self) -> nn.Conv2d:
        return self.get_submodule("0")  # type: ignore[return-value]

    @property
    def normalisation(self) -> nn.BatchNorm2d:
        return self.get_submodule("1")  # type: ignore[return-value]


class SameSizePool(nn.Module):
    """Max pool of size 2 and stride 1 that keeps the size.

    Darknet looks one pixel past the right and the bottom edge and ignores what lies outside. Repeating the
    edge gives the same maximum; padding with zeros would not, because leaky activations are often negative.
    Written as two maxima, because the gradient of overlapping pooling windows depends on the order of additions on a
    GPU.
    """

    def forward(self, features: Tensor) -> Tensor:
        across = torch.maximum(features, torch.cat([features[..., 1:], features[..., -1:]], dim=3))
        return torch.maximum(across, torch.cat([across[:, :, 1:], across[:, :, -1:]], dim=2))


class TinyYolo(Detector):
    """Maps images (N, 3, H, W) in [0, 1] to the raw head map (N, anchors * (5 + classes), H / 32, W / 32).

    Per anchor the map holds tx, ty, tw, th, the objectness logit and the class logits: see `yolo_decode`.
    """

    Settings: ClassVar[type[BaseModel]] = TinyYoloConfig

    def __init__(self, **settings: Any) -> None:
        """The settings are `TinyYoloConfig`'s, in the plain values of a plan."""
        super().__init__()
        self.config = config = TinyYoloConfig.model_validate(settings)
        self.classes, self.input_size = config.classes, config.input_size
        channels = [scaled_channels(published, config.width) for published in PUBLISHED_CHANNELS[config.variant]]
        layers: list[nn.Module] = []
        for index, (channels_in, channels_out) in enumerate(zip([3, *channels], channels, strict=False)):
            layers.append(ConvBlock(channels_in, channels_out, config.statistics_momentum))
            if index < POOLED_LAYERS:
                layers.append(nn.MaxPool2d(2))
            elif index == POOLED_LAYERS:
                layers.append(SameSizePool())
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Conv2d(channels[-1], config.head_channels, 1)
        # Small outputs: every box starts near its anchor, in the middle of its cell, and is probably background.
        # Were objectness to start at 1/2, the first steps against hundreds of background places would push it so
        # far down everywhere that its sigmoid saturates, and plain SGD never brings it back.
        nn.init.normal_(self.head.weight, std=0.01)
        bias = torch.zeros(len(config.anchors), 5 + len(config.classes))
        bias[:, 4] = math.log(OBJECT_PRIOR / (1 - OBJECT_PRIOR))
        self.head.bias = nn.Parameter(bias.flatten())

    @classmethod
    def of(cls, config: TinyYoloConfig) -> TinyYolo:
        return cls(**config.to_settings())

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        if height % STRIDE or width % STRIDE:
            raise ValueError(f"TinyYOLO takes images whose sides are multiples of {STRIDE}, got {width}x{height}")
        # With few channels in large pictures, pooling and convolutions of a CPU are faster if channels lie together.
        head: Tensor = self.head(self.backbone(images.contiguous(memory_format=torch.channels_last)))
        return head.contiguous()

    def conv_blocks(self) -> Sequence[ConvBlock]:
        """The hidden layers in the order of darknet's weight file."""
        return [layer for layer in self.backbone if isinstance(layer, ConvBlock)]


def scaled_channels(published: int, width: float) -> int:
    """Multiples of 8 keep vectorised convolutions full; the published width stays exactly as published."""
    return published if width == 1.0 else max(8, round(published * width / 8) * 8)
