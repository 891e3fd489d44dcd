"""Whether an exported detector says the same as the model it was made from, frame by frame."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from models.detections import LIMIT, Detections

BOX_TOLERANCE = 1.0
"""Pixels of the frame."""
SCORE_TOLERANCE = 1e-3
_FAR = 4 * BOX_TOLERANCE
"""Boxes that are farther apart are different objects."""


@dataclass
class Parity:
    """The largest differences so far of objects that both found, and how many only one of them found."""

    confidence: float
    """Objects above it are compared; one within the tolerance of it may be missing on one side."""
    frames: int = 0
    objects: int = 0
    box: float = 0.0
    score: float = 0.0
    unmatched: int = 0

    @property
    def holds(self) -> bool:
        return self.unmatched == 0 and self.box <= BOX_TOLERANCE and self.score <= SCORE_TOLERANCE

    def add(self, wanted: Detections, found: Detections) -> None:
        """Compare the objects of one frame, boxes in its pixels."""
        self.frames += 1
        free = torch.ones(len(found.scores), dtype=torch.bool)
        seen_once: list[float] = []
        for box, score, label in zip(wanted.boxes, wanted.scores, wanted.labels, strict=True):
            if score <= self.confidence:
                continue
            self.objects += 1
            apart = (found.boxes - box).abs().amax(dim=1) + torch.where(free & (found.labels == label), 0.0, torch.inf)
            nearest = int(apart.argmin()) if len(apart) else -1
            if nearest < 0 or float(apart[nearest]) > _FAR:
                seen_once.append(float(score))
                continue
            free[nearest] = False
            self.box = max(self.box, float(apart[nearest]))
            self.score = max(self.score, abs(float(found.scores[nearest] - score)))
        seen_once += [float(score) for score in found.scores[free] if score > self.confidence]
        lowest = max(self.confidence, _lowest(wanted), _lowest(found))
        self.unmatched += sum(score > lowest + SCORE_TOLERANCE for score in seen_once)


def _lowest(found: Detections) -> float:
    """The score from which on objects are reported, if there are more than are reported."""
    return float(found.scores.min()) if len(found.scores) >= LIMIT else 0.0
