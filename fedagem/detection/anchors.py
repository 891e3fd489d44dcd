"""Anchor shapes by k-means over the boxes of the training frames."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.tiny_yolo import STRIDE
from models.yolo_decode import shape_iou

BEGINNINGS = 10
MOST_TURNS = 300


@dataclass(frozen=True)
class Anchors:
    """Anchor sizes (width, height) in grid cells, smallest first, and how well they fit the boxes."""

    sizes: tuple[tuple[float, float], ...]
    mean_iou: float
    boxes: int


def cluster_anchors(sizes: Tensor, count: int, *, seed: int = 0) -> Anchors:
    """k-means with the distance 1 - IoU over box sizes (n, 2) in pixels of the network's input.

    IoU instead of Euclidean distance, so that large boxes do not rule over small ones. Of several beginnings,
    drawn like k-means++ from a seeded generator, the one that ends with the best mean IoU is kept, because a
    single one may spend an anchor on a few odd boxes. Same boxes, same seed, same anchors.
    """
    cells = sizes.double() / STRIDE
    different = len(torch.unique(cells, dim=0))
    if count < 1:
        raise ValueError(f"the number of anchors must be at least 1, got {count}")
    if different < count:
        raise ValueError(f"{count} anchors need at least {count} boxes of different size, got {different}")
    generator = torch.Generator().manual_seed(seed)
    attempts = [_cluster(cells, _starting_points(cells, count, generator)) for _ in range(BEGINNINGS)]
    fits = [float(shape_iou(cells, centres).amax(dim=1).mean()) for centres in attempts]
    best = max(range(BEGINNINGS), key=fits.__getitem__)
    centres = attempts[best][attempts[best].prod(dim=1).argsort()]
    return Anchors(tuple((round(w, 3), round(h, 3)) for w, h in centres.tolist()), fits[best], len(cells))


def _cluster(cells: Tensor, centres: Tensor) -> Tensor:
    """Centres moved to the mean of the boxes nearest to them until nothing changes."""
    nearest = torch.full((len(cells),), -1)
    for _ in range(MOST_TURNS):
        previous, nearest = nearest, shape_iou(cells, centres).argmax(dim=1)
        if torch.equal(previous, nearest):
            break
        members = torch.bincount(nearest, minlength=len(centres))[:, None]
        sums = torch.zeros_like(centres).index_add_(0, nearest, cells)
        centres = torch.where(members > 0, sums / members.clamp(min=1), centres)
    return centres


def _starting_points(cells: Tensor, count: int, generator: torch.Generator) -> Tensor:
    chosen = [int(torch.randint(len(cells), (1,), generator=generator))]
    while len(chosen) < count:
        distance = 1 - shape_iou(cells, cells[chosen]).amax(dim=1)
        chosen.append(int(torch.multinomial(distance.clamp(min=0).square(), 1, generator=generator)))
    return cells[chosen].clone()
