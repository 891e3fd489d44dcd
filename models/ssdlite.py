"""SSDLite on MobileNetV2, of torchvision's parts: a detector with weights for its backbone that are easy to get."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, Strict
from torch import Tensor, nn
from torchvision.models import mobilenet_v2
from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.ssd import SSD
from torchvision.models.detection.ssdlite import SSDLiteHead
from torchvision.ops import box_convert, box_iou
from torchvision.ops.misc import Conv2dNormActivation

from models.detections import Candidates
from models.detector import AnyDetector

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, for which the backbone's published weights are."""
STRIDE_32 = 14
"""The block of MobileNetV2 after whose first layer the map with a stride of 16 is taken."""
SCALES = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)
"""Sizes of the default boxes of the six maps relative to the input, as published for SSD."""


class SSDLiteConfig(BaseModel):
    """The settings of SSDLite."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    classes: Annotated[tuple[str, ...], Strict(False)] = Field(min_length=1)
    """The names of the classes, in the order of their labels."""
    input_size: Annotated[tuple[int, int], Strict(False)] = (320, 320)
    """Width and height of the input in pixels."""
    weights: str | None = None
    """torchvision's file of MobileNetV2 trained on ImageNet, with which the backbone begins."""
    statistics_momentum: float = Field(0.03, gt=0, le=1)
    """The weight of one batch in BatchNorm's running statistics."""


class SSDLite(AnyDetector):
    """Maps images to (N, places, 5 + classes): four box offsets, then the logits of background and of each class."""

    Settings: ClassVar[type[BaseModel]] = SSDLiteConfig
    fixed_head = True

    def __init__(self, **settings: Any) -> None:
        """The settings are `SSDLiteConfig`'s, in the plain values of a plan."""
        super().__init__()
        config = SSDLiteConfig.model_validate(settings)
        self.classes, self.input_size = config.classes, config.input_size
        width, height = config.input_size
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=config.statistics_momentum)
        backbone = _Maps(norm, config.weights)
        maps = _shapes(backbone, height, width)
        boxes = DefaultBoxGenerator([[2, 3] for _ in maps], scales=list(SCALES))
        places = boxes.num_anchors_per_location()
        head = SSDLiteHead([shape[1] for shape in maps], places, 1 + len(self.classes), norm)
        self.ssd = SSD(backbone, boxes, (width, height), 1 + len(self.classes), head=head)
        empty = ImageList(torch.zeros(1, 3, height, width), [(height, width)])
        (anchors,) = boxes(empty, [torch.zeros(shape) for shape in maps])
        self.register_buffer("anchors", anchors, persistent=False)
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    anchors: Tensor
    mean: Tensor
    std: Tensor

    def forward(self, images: Tensor, boxes: Tensor | None = None) -> Tensor:
        maps = list(self.ssd.backbone((images - self.mean) / self.std).values())
        outputs = self.ssd.head(maps)
        return torch.cat([outputs["bbox_regression"], outputs["cls_logits"]], dim=2)

    def losses(self, raw: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        """Smooth L1 and cross-entropy with three background places for each with an object, by torchvision."""
        targets = [self._target(rows) for rows in boxes]
        matched = [self._matched(target["boxes"]) for target in targets]
        outputs = {"bbox_regression": raw[..., :4], "cls_logits": raw[..., 4:]}
        terms: dict[str, Tensor] = self.ssd.compute_loss(targets, outputs, [self.anchors] * len(targets), matched)
        return {"box": terms["bbox_regression"], "classification": terms["classification"]}

    def candidates(self, raw: Tensor) -> Candidates:
        images, places, _ = raw.shape
        anchors = self.anchors.repeat(images, 1)
        decoded = self.ssd.box_coder.decode_single(raw[..., :4].reshape(-1, 4).float(), anchors)
        boxes = decoded.view(images, places, 4) / decoded.new_tensor(self.input_size * 2)
        return Candidates(boxes.clamp(0.0, 1.0), raw[..., 4:].float().softmax(dim=-1)[..., 1:])

    def _target(self, rows: Tensor) -> dict[str, Tensor]:
        objects = rows[rows[:, 0] >= 0]
        pixels = box_convert(objects[:, 1:], "cxcywh", "xyxy") * objects.new_tensor(self.input_size * 2)
        return {"boxes": pixels, "labels": objects[:, 0].long() + 1}

    def _matched(self, boxes: Tensor) -> Tensor:
        """The object of each default box, negative for background."""
        if not len(boxes):
            return torch.full((len(self.anchors),), -1, dtype=torch.long, device=self.anchors.device)
        found: Tensor = self.ssd.proposal_matcher(box_iou(boxes, self.anchors))
        return found


class _Maps(nn.Module):
    """Six feature maps: MobileNetV2's at strides of 16 and 32, and four smaller ones."""

    def __init__(self, norm: Any, weights: str | None) -> None:
        super().__init__()
        network = mobilenet_v2(weights=None, norm_layer=norm)
        if weights is not None:
            network.load_state_dict(torch.load(Path(weights).expanduser(), map_location="cpu", weights_only=True))
        blocks = network.features
        turning = blocks[STRIDE_32].conv
        self.first = nn.Sequential(*blocks[:STRIDE_32], turning[0])
        self.second = nn.Sequential(*turning[1:], *blocks[STRIDE_32 + 1 :])
        sizes = (1280, 512, 256, 256, 128)
        self.smaller = nn.ModuleList(_halved(*pair, norm) for pair in pairwise(sizes))

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = [self.first(images)]
        maps.append(self.second(maps[0]))
        for block in self.smaller:
            maps.append(block(maps[-1]))
        return OrderedDict((str(number), values) for number, values in enumerate(maps))


def _halved(channels: int, wanted: int, norm: Any) -> nn.Sequential:
    """A map of half the width and height, by a depthwise convolution between two that mix channels."""
    layer = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
    inner = wanted // 2
    return nn.Sequential(
        layer(channels, inner, kernel_size=1),
        layer(inner, inner, kernel_size=3, stride=2, groups=inner),
        layer(inner, wanted, kernel_size=1),
    )


def _shapes(backbone: nn.Module, height: int, width: int) -> list[torch.Size]:
    training = backbone.training
    with torch.no_grad():
        maps = backbone.eval()(torch.zeros(1, 3, height, width))
    backbone.train(training)
    return [values.shape for values in maps.values()]
