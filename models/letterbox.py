"""Fits frames into the network's input without distortion, and brings boxes there and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torchvision.transforms.v2 import functional as transforms

GREY = 128


@dataclass(frozen=True)
class Letterbox:
    """The mapping of frames of one size, (width, height), into one input size: scaled, centred, grey around.

    Replay needs the very same mapping as the first pass, otherwise stored logits would not align: it depends
    on the two sizes alone.
    """

    frame_size: tuple[int, int]
    input_size: tuple[int, int]

    @property
    def content_size(self) -> tuple[int, int]:
        """Width and height of the scaled frame within the input, in whole pixels."""
        scale = min(wanted / given for wanted, given in zip(self.input_size, self.frame_size, strict=True))
        width, height = (max(1, round(side * scale)) for side in self.frame_size)
        return width, height

    @property
    def corner(self) -> tuple[int, int]:
        """Left and top of the scaled frame within the input, in pixels."""
        left, top = ((i - c) // 2 for i, c in zip(self.input_size, self.content_size, strict=True))
        return left, top

    def images(self, frames: Tensor) -> Tensor:
        """Frames (N, 3, H, W) of bytes as inputs of the network, still bytes."""
        width, height = self.frame_size
        if frames.shape[-2:] != (height, width):
            raise ValueError(f"this letterbox takes {width}x{height} frames, got {frames.shape[-1]}x{frames.shape[-2]}")
        if self.input_size == self.frame_size:
            return frames
        inner_width, inner_height = self.content_size
        left, top = self.corner
        scaled = transforms.resize(frames, [inner_height, inner_width], antialias=True)
        right = self.input_size[0] - inner_width - left
        bottom = self.input_size[1] - inner_height - top
        return functional.pad(scaled, (left, right, top, bottom), value=GREY)

    def to_input(self, boxes: Tensor) -> Tensor:
        """Boxes (..., 4) as x1, y1, x2, y2 in frame pixels to the same corners relative to the input."""
        scale, shift = self._affine(boxes)
        return boxes * scale + shift

    def to_frame(self, boxes: Tensor) -> Tensor:
        """The inverse of `to_input`; boxes are not clipped, so that nothing is lost on the way."""
        scale, shift = self._affine(boxes)
        return (boxes - shift) / scale

    def clip(self, boxes: Tensor) -> Tensor:
        """Cut frame boxes where they reach into the grey border, in which no object can be."""
        return torch.minimum(boxes.clamp(min=0), boxes.new_tensor(self.frame_size * 2))

    def _affine(self, like: Tensor) -> tuple[Tensor, Tensor]:
        scale = [
            content / (frame * size)
            for content, frame, size in zip(self.content_size, self.frame_size, self.input_size, strict=True)
        ]
        shift = [corner / size for corner, size in zip(self.corner, self.input_size, strict=True)]
        return like.new_tensor(scale * 2), like.new_tensor(shift * 2)
