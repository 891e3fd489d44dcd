"""Average precision of one class from its ranked detections, and what it would be on other draws of the frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedagem.detection.matching import Bools, Floats, Ints

RECALLS = np.linspace(0.0, 1.0, 101)
"""COCO's precision is the mean of the precisions at these recalls."""

Weights = NDArray[np.int32]
"""(frames, draws): how often a draw has each frame."""


@dataclass(frozen=True)
class RankedClass:
    """The detections of one class in all frames, best first, and how many objects each frame has of it."""

    frame: Ints
    hit: Bools
    """(overlaps, detections)."""
    ignored: Bools
    """(overlaps, detections): neither hits nor false alarms."""
    objects: Ints
    """By frame."""

    def precision(self, level: int) -> float | None:
        """COCO's average precision at one of the overlaps; None if there is nothing to find."""
        wanted = int(self.objects.sum())
        if not wanted:
            return None
        hit = self.hit[level]
        counted = hit | ~self.ignored[level]
        hits = np.cumsum(hit)[hit]
        precision = hits / np.cumsum(counted)[hit]
        # Precision counts as the best one at that recall or a higher one, so only hits can be such a best.
        best = np.maximum.accumulate(precision[::-1])[::-1]
        place = np.searchsorted(hits / wanted, RECALLS, side="left")
        return float(best[place[place < len(best)]].sum() / len(RECALLS))

    def resampled_precision(self, draws: Weights) -> Floats:
        """The precision at the smallest overlap for each draw; not a number for a draw without objects."""
        hit = np.flatnonzero(self.hit[0])
        wanted = self.objects @ draws.astype(np.int64)
        if not len(hit):
            return np.where(wanted > 0, 0.0, np.nan)
        alarm = np.flatnonzero(~self.hit[0] & ~self.ignored[0])
        alarm = alarm[alarm < hit[-1]]
        hits = np.cumsum(draws[self.frame[hit]], axis=0)
        alarms = np.concatenate([np.zeros_like(hits[:1]), np.cumsum(draws[self.frame[alarm]], axis=0)])
        alarms = alarms[np.searchsorted(alarm, hit)]
        precision = np.divide(hits, hits + alarms, out=np.zeros(hits.shape, np.float32), where=hits > 0)
        best = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
        # How many of the recalls each hit is the first to reach.
        reached = (len(RECALLS) - 1) * hits // np.maximum(wanted, 1)
        first = np.diff(reached, axis=0, prepend=-1)
        return np.where(wanted > 0, (best * first).sum(axis=0) / len(RECALLS), np.nan)


def draw_frames(frames: int, block: int, draws: int, seed: int) -> Weights:
    """Draws with replacement of as many blocks of consecutive frames as there are: neighbours show the same objects."""
    block_of = np.arange(frames) // block
    blocks = int(block_of[-1]) + 1 if frames else 0
    chosen = np.random.default_rng(seed).integers(blocks, size=(draws, blocks)) if blocks else np.zeros((draws, 0), int)
    numbered = chosen + blocks * np.arange(draws)[:, None]
    counts = np.bincount(numbered.ravel(), minlength=draws * blocks).reshape(draws, blocks)
    return np.ascontiguousarray(counts.T[block_of], dtype=np.int32)
