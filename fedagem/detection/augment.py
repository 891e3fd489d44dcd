"""Light augmentation of detection batches: mirror, zoom and colour, on whole batches of bytes."""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional
from torchvision.ops import box_convert

from fedagem.settings import Settings
from models.letterbox import GREY
from models.yolo_decode import PADDING_CLASS

LUMA = (0.299, 0.587, 0.114)
VISIBLE_PART = 0.3
MIRRORED = "mirrored"
"""Names the tensor of an augmented batch that says which samples are mirror images."""


class Augmentation(Settings):
    """Strengths of the three changes; 0 switches one off.

    Samples that carry `logits` (replay of stored outputs) are mirrored and coloured, never zoomed: mirroring
    can be done to the head map exactly, colour leaves it in place, and zoom would move objects between cells.
    """

    flip: float = Field(0.5, ge=0, le=1)
    """The probability of a mirror image."""
    zoom: float = Field(0.25, ge=0, lt=1)
    """The largest relative change of scale, with a shift that may move as much of the frame out of sight."""
    colour: float = Field(0.3, ge=0, lt=1)
    """The largest relative change of brightness, contrast and saturation."""

    def __call__(self, batch: dict[str, Tensor], generator: torch.Generator, anchors: int) -> dict[str, Tensor]:
        """A changed copy; the given tensors, which may be the replay buffer's own, stay as they are."""
        changed = dict(batch)
        images = len(batch["x"])
        if self.flip > 0:
            mirrored = (torch.rand(images, generator=generator) < self.flip).to(batch["x"].device)
            changed = mirror(changed, mirrored, anchors)
        pixels = changed["x"].float()
        if self.zoom > 0 and "logits" not in batch:
            pixels, changed["boxes"] = self._zoomed(pixels, changed["boxes"], generator)
        if self.colour > 0:
            pixels = self._coloured(pixels, generator)
        changed["x"] = pixels.round_().clamp_(0, 255).to(torch.uint8)
        return changed

    def _zoomed(self, pixels: Tensor, boxes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        random = (2 * torch.rand((len(pixels), 3), generator=generator) - 1).to(pixels.device)
        scale = torch.exp(random[:, :1] * math.log1p(self.zoom))
        shift = random[:, 1:] * self.zoom / 2
        # The sampling grid maps output to input, in coordinates from -1 to 1; boxes go the other way.
        height, width = pixels.shape[-2:]
        across = (_pixel_centres(width, pixels.device)[None] - 2 * shift[:, :1]) / scale
        down = (_pixel_centres(height, pixels.device)[None] - 2 * shift[:, 1:]) / scale
        grid = torch.stack(torch.broadcast_tensors(across[:, None, :], down[:, :, None]), dim=-1)
        zoomed = functional.grid_sample(pixels - GREY, grid, align_corners=False) + GREY
        return zoomed, _zoom_boxes(boxes, scale, shift)

    def _coloured(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """Brightness, contrast and saturation are one affine map of the colours: a 3x3 matrix and a constant."""
        factors = 1 + self.colour * (2 * torch.rand((len(pixels), 3, 1, 1), generator=generator) - 1)
        brightness, contrast, saturation = factors.unbind(dim=1)
        to_grey = torch.tensor(LUMA).expand(3, 3)
        matrix = (brightness * contrast * (saturation * torch.eye(3) + (1 - saturation) * to_grey)).to(pixels.device)
        contrast = contrast.to(pixels.device)
        constant = GREY * (1 - contrast)
        flat = torch.baddbmm(constant, matrix, pixels.flatten(2))
        return flat.view_as(pixels)


def _pixel_centres(pixels: int, device: torch.device) -> Tensor:
    return (2 * torch.arange(pixels, dtype=torch.float32, device=device)).add_(1).div_(pixels).sub_(1)


def mirror(batch: dict[str, Tensor], chosen: Tensor, anchors: int) -> dict[str, Tensor]:
    """Mirror the chosen samples left to right: pixels, boxes and, if there are any, stored head maps."""
    mirrored = {**batch, MIRRORED: chosen}
    mirrored["x"] = torch.where(chosen[:, None, None, None], batch["x"].flip(3), batch["x"])
    boxes = batch["boxes"].clone()
    boxes[..., 1] = torch.where(chosen[:, None], 1 - boxes[..., 1], boxes[..., 1])
    mirrored["boxes"] = boxes
    if "logits" in batch:
        logits = batch["logits"]
        mirrored["logits"] = torch.where(chosen[:, None, None, None], mirror_head(logits, anchors), logits)
    return mirrored


def mirror_head(head: Tensor, anchors: int) -> Tensor:
    """The head map of the mirror image: columns swap, and tx changes sign because 1 - sigmoid(t) = sigmoid(-t)."""
    flipped = head.flip(3)
    flipped[:, :: head.shape[1] // anchors].neg_()
    return flipped


def _zoom_boxes(boxes: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Boxes after the zoom, cut at the frame's edge; what is mostly out of sight becomes padding."""
    zoomed = boxes.clone()
    zoomed[..., 1:3] = (boxes[..., 1:3] - 0.5) * scale[:, None] + 0.5 + shift[:, None]
    zoomed[..., 3:5] = boxes[..., 3:5] * scale[:, None]
    whole = zoomed[..., 3:5].prod(dim=-1)
    cut = box_convert(box_convert(zoomed[..., 1:], "cxcywh", "xyxy").clamp(0, 1), "xyxy", "cxcywh")
    zoomed[..., 1:] = cut
    visible = cut[..., 2:].prod(dim=-1) >= VISIBLE_PART * whole
    zoomed[..., 0] = torch.where(visible & (whole > 0), boxes[..., 0], PADDING_CLASS)
    return zoomed
