"""From what a detector says of many places to the objects it reports: the same for every detector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.ops import batched_nms


@dataclass(frozen=True)
class Candidates:
    """What a detector says of each of P places of N images, before anything is left out.

    `boxes` (N, P, 4) are x1, y1, x2, y2 relative to the network's input, `scores` (N, P, classes) from 0 to 1.
    """

    boxes: Tensor
    scores: Tensor


@dataclass(frozen=True)
class Detections:
    """Detections of a whole batch, one row each, best first within an image.

    `boxes` are (x1, y1, x2, y2) relative to the network's input; `image` says which image of the batch.
    """

    image: Tensor
    boxes: Tensor
    scores: Tensor
    labels: Tensor


LIMIT = 100
"""How many detections are reported per image."""
CONSIDERED = 200
"""How many candidates per image suppression looks at."""


def select(
    found: Candidates, *, confidence: float, overlap: float, limit: int = LIMIT, considered: int = CONSIDERED
) -> Detections:
    """Non-maximum suppression.

    Every class of every box whose score exceeds `confidence` is considered, at most the best `considered` per image;
    boxes of one class that overlap by more than `overlap` are suppressed, and `limit` per image are kept.
    """
    images, _, classes = found.scores.shape
    scores = found.scores.reshape(images, -1)
    best, index = scores.topk(min(considered, scores.shape[1]), dim=1)
    image, rank = torch.nonzero(best > confidence, as_tuple=True)
    score, index = best[image, rank], index[image, rank]
    label = index % classes
    boxes = found.boxes[image, index // classes]

    kept = batched_nms(boxes, score, image * classes + label, overlap)
    kept = kept[torch.argsort(image[kept], stable=True)]
    first = torch.searchsorted(image[kept].contiguous(), torch.arange(images, device=scores.device))
    kept = kept[torch.arange(len(kept), device=scores.device) - first[image[kept]] < limit]
    return Detections(image[kept], boxes[kept], score[kept], label[kept])
