"""What the numbers of TinyYOLO's head map mean: boxes out of the map, and boxes into targets for the map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.ops import batched_nms, box_convert

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
    """One row per object: which place of the map is responsible for it, and what it should say there.

    `offset` is the centre within its cell (what the sigmoid of tx, ty should be), `scale` the logarithm of the
    size relative to the anchor (tw, th), `box` the truth as (cx, cy, w, h) relative to the input.
    `unassigned` counts objects that found every anchor of their cell taken: they are not learned.
    """

    image: Tensor
    anchor: Tensor
    row: Tensor
    column: Tensor
    offset: Tensor
    scale: Tensor
    label: Tensor
    box: Tensor
    unassigned: int

    @property
    def place(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.image, self.anchor, self.row, self.column


@dataclass(frozen=True)
class Detections:
    """Detections of a whole batch, one row each, best first within an image.

    `boxes` are (x1, y1, x2, y2) relative to the network's input; `image` says which image of the batch.
    """

    image: Tensor
    boxes: Tensor
    scores: Tensor
    labels: Tensor


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
    image, slot = torch.nonzero(boxes[..., 0] >= 0, as_tuple=True)
    objects = boxes[image, slot]
    label, box = objects[:, 0].long(), objects[:, 1:]
    cells = torch.tensor([columns, rows], dtype=box.dtype, device=box.device)
    centre, size = box[:, :2] * cells, box[:, 2:] * cells
    cell = torch.minimum(centre.floor().clamp(min=0), cells - 1)
    column, row = cell.long().unbind(dim=1)
    anchor = _assign_anchors((image * rows + row) * columns + column, shape_iou(size, anchors))

    kept = anchor >= 0
    image, row, column, anchor = image[kept], row[kept], column[kept], anchor[kept]
    return Targets(
        image=image,
        anchor=anchor,
        row=row,
        column=column,
        offset=(centre - cell)[kept],
        scale=(size[kept] / anchors[anchor]).log(),
        label=label[kept],
        box=box[kept],
        unassigned=int((~kept).sum()),
    )


def shape_iou(sizes: Tensor, anchors: Tensor) -> Tensor:
    """IoU of (n, 2) sizes with (a, 2) anchors, as if they shared a centre: (n, a)."""
    intersection = torch.minimum(sizes[:, None], anchors[None]).prod(dim=2)
    return intersection / (sizes.prod(dim=1)[:, None] + anchors.prod(dim=1)[None] - intersection)


def _assign_anchors(cell: Tensor, fit: Tensor) -> Tensor:
    """The anchor of every object, -1 where all anchors of its cell went to objects that fit better.

    In each turn every object without an anchor bids for the free one of its cell that it fits best, and the
    best bid wins. A cell with bidders fills an anchor per turn, so there are at most as many turns as anchors.
    """
    objects, anchors = fit.shape
    assigned = torch.full((objects,), -1, dtype=torch.long, device=fit.device)
    _, cell = torch.unique(cell, return_inverse=True)
    taken = torch.zeros((objects, anchors), dtype=torch.bool, device=fit.device)
    waiting = torch.arange(objects, device=fit.device)
    for _ in range(anchors):
        if not len(waiting):
            break
        bid, wanted = fit[waiting].masked_fill(taken[cell[waiting]], -1.0).max(dim=1)
        place = cell[waiting] * anchors + wanted
        best = torch.full((objects * anchors,), -1.0, dtype=fit.dtype, device=fit.device)
        best.scatter_reduce_(0, place, bid, "amax")
        # Equal bids: the first object of the batch wins, so that the outcome never depends on the device.
        first = torch.full_like(best, objects, dtype=torch.long)
        leading = (bid >= 0) & (bid == best[place])
        first.scatter_reduce_(0, place[leading], waiting[leading], "amin")
        won = leading & (first[place] == waiting)
        assigned[waiting[won]] = wanted[won]
        taken[cell[waiting[won]], wanted[won]] = True
        waiting = waiting[~won]
    return assigned


def detect(
    head: Tensor,
    anchors: Tensor,
    *,
    confidence: float,
    overlap: float,
    limit: int = 100,
    candidates: int = 200,
) -> Detections:
    """Turn raw head maps into detections: objectness times class probability, then non-maximum suppression.

    Every class of every box whose score exceeds `confidence` is a candidate, at most `candidates` per image;
    boxes of one class that overlap by more than `overlap` are suppressed, and `limit` per image are kept.
    """
    parts = split_head(head.float(), len(anchors))
    images, classes = head.shape[0], parts.classes.shape[-1]
    scores = (parts.objectness.sigmoid().unsqueeze(-1) * parts.classes.softmax(dim=-1)).reshape(images, -1)
    best, index = scores.topk(min(candidates, scores.shape[1]), dim=1)
    image, rank = torch.nonzero(best > confidence, as_tuple=True)
    score, index = best[image, rank], index[image, rank]
    label = index % classes
    decoded = decode_boxes(parts, anchors.float()).reshape(images, -1, 4)[image, index // classes]
    boxes = box_convert(decoded, "cxcywh", "xyxy").clamp(0.0, 1.0)

    kept = batched_nms(boxes, score, image * classes + label, overlap)
    kept = kept[torch.argsort(image[kept], stable=True)]
    first = torch.searchsorted(image[kept].contiguous(), torch.arange(images, device=head.device))
    kept = kept[torch.arange(len(kept), device=head.device) - first[image[kept]] < limit]
    return Detections(image[kept], boxes[kept], score[kept], label[kept])
