"""What the numbers of TinyYOLO's head map mean: boxes out of the map, and boxes into targets for the map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.ops import box_convert

from models.detections import LIMIT, Candidates, Detections, select

PADDING_CLASS = -1


@dataclass(frozen=True)
class HeadMap:
    """The raw map taken apart, without a change of values: all tensors are (N, A, rows, columns, ...)."""

    offsets: Tensor
    scales: Tensor
    objectness: Tensor
    classes: Tensor


@dataclass(frozen=True)
class Targets:
    """One row per slot of `boxes`: which place of the map is responsible for its object, and what it should say there.

    `offset` is the centre within its cell (what the sigmoid of tx, ty should be), `scale` the logarithm of the
    size relative to the anchor (tw, th), `box` the truth as (cx, cy, w, h) relative to the input. Rows that are not
    `kept` are padding, or objects that found every anchor of their cell taken: they are not learned, and their other
    values mean nothing. That the number of rows does not depend on values spares a device from waiting for the host.
    """

    image: Tensor
    anchor: Tensor
    row: Tensor
    column: Tensor
    offset: Tensor
    scale: Tensor
    label: Tensor
    box: Tensor
    kept: Tensor

    @property
    def place(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.image, self.anchor, self.row, self.column


def split_head(head: Tensor, anchors: int) -> HeadMap:
    """Views on the raw map (N, anchors * (5 + classes), rows, columns), per anchor."""
    # Channels last on the way: the gradient then comes back in the layout in which convolutions are fast.
    parts = head.permute(0, 2, 3, 1).unflatten(3, (anchors, -1)).permute(0, 3, 1, 2, 4)
    return HeadMap(parts[..., 0:2], parts[..., 2:4], parts[..., 4], parts[..., 5:])


def decode_boxes(parts: HeadMap, anchors: Tensor) -> Tensor:
    """Boxes (N, A, rows, columns, 4) as (cx, cy, w, h) relative to the input."""
    rows, columns = parts.objectness.shape[-2:]
    grid = torch.tensor([columns, rows], dtype=parts.offsets.dtype, device=parts.offsets.device)
    cells = torch.stack(
        torch.meshgrid(
            torch.arange(columns, dtype=grid.dtype, device=grid.device),
            torch.arange(rows, dtype=grid.dtype, device=grid.device),
            indexing="xy",
        ),
        dim=-1,
    )
    centres = (cells + parts.offsets.sigmoid()) / grid
    sizes = anchors[:, None, None, :] * parts.scales.exp() / grid
    return torch.cat([centres, sizes], dim=-1)


def encode_boxes(boxes: Tensor, anchors: Tensor, grid: tuple[int, int]) -> Targets:
    """Targets for boxes (N, max_boxes, 5): class, cx, cy, w, h relative to the input; class -1 is padding.

    The cell of an object's centre is responsible, with the anchor nearest to it in shape. Objects of any size
    are encoded as they are. Where two objects want the same anchor of the same cell, the one that fits it
    better has it and the other takes its next best free anchor; nothing is overwritten.
    """
    rows, columns = grid
    images, slots = boxes.shape[:2]
    image = torch.arange(images, device=boxes.device).repeat_interleave(slots)
    objects = boxes.reshape(images * slots, 5)
    present, box = objects[:, 0] >= 0, objects[:, 1:]
    cells = torch.tensor([columns, rows], dtype=box.dtype, device=box.device)
    centre, size = box[:, :2] * cells, box[:, 2:] * cells
    cell = torch.minimum(centre.floor().clamp(min=0), cells - 1)
    column, row = cell.long().unbind(dim=1)
    place = (image * rows + row) * columns + column
    assigned = _assign_anchors(place, shape_iou(size, anchors), present, images * rows * columns)
    kept, anchor = assigned >= 0, assigned.clamp(min=0)
    scale = (size / anchors[anchor]).log()
    return Targets(
        image=image,
        anchor=anchor,
        row=row,
        column=column,
        offset=centre - cell,
        scale=torch.where(kept[:, None], scale, torch.zeros_like(scale)),
        label=objects[:, 0].long().clamp(min=0),
        box=box,
        kept=kept,
    )


def shape_iou(sizes: Tensor, anchors: Tensor) -> Tensor:
    """IoU of (n, 2) sizes with (a, 2) anchors, as if they shared a centre: (n, a)."""
    intersection = torch.minimum(sizes[:, None], anchors[None]).prod(dim=2)
    return intersection / (sizes.prod(dim=1)[:, None] + anchors.prod(dim=1)[None] - intersection)


def _assign_anchors(cell: Tensor, fit: Tensor, present: Tensor, cells: int) -> Tensor:
    """The anchor of every object, -1 if all anchors of its cell went to objects that fit better, and for padding.

    In each turn every object without an anchor bids for the free one of its cell that it fits best, and the
    best bid wins. A cell with bidders fills an anchor per turn, so there are at most as many turns as anchors.
    """
    objects, anchors = fit.shape
    number = torch.arange(objects, device=fit.device)
    assigned = torch.full_like(number, -1)
    taken = torch.zeros((cells, anchors), dtype=torch.bool, device=fit.device)
    for _ in range(anchors):
        waiting = present & (assigned < 0)
        bid, wanted = fit.masked_fill(taken[cell] | ~waiting[:, None], -1.0).max(dim=1)
        place = cell * anchors + wanted
        best = fit.new_full((cells * anchors,), -1.0).scatter_reduce_(0, place, bid, "amax")
        # Equal bids: the first object of the batch wins, so that the outcome never depends on the device.
        leading = (bid >= 0) & (bid == best[place])
        first = number.new_full((cells * anchors,), objects)
        first.scatter_reduce_(0, place, torch.where(leading, number, objects), "amin")
        won = leading & (first[place] == number)
        assigned = torch.where(won, wanted, assigned)
        taken = taken | (first < objects).view_as(taken)
    return assigned


def candidates(head: Tensor, anchors: Tensor) -> Candidates:
    """What raw head maps say of every place: objectness times class probability."""
    parts = split_head(head.float(), len(anchors))
    images, classes = head.shape[0], parts.classes.shape[-1]
    scores = parts.objectness.sigmoid().unsqueeze(-1) * parts.classes.softmax(dim=-1)
    boxes = box_convert(decode_boxes(parts, anchors.float()).reshape(images, -1, 4), "cxcywh", "xyxy")
    return Candidates(boxes.clamp(0.0, 1.0), scores.reshape(images, -1, classes))


def detect(head: Tensor, anchors: Tensor, *, confidence: float, overlap: float, limit: int = LIMIT) -> Detections:
    """Turn raw head maps into detections, see `select`."""
    return select(candidates(head, anchors), confidence=confidence, overlap=overlap, limit=limit)
