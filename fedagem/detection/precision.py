"""Mean average precision of detections on annotated frames: COCO's, with intervals over the frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor
from torchvision.ops import box_convert

from fedagem.detection.matching import (
    MAX_DETECTIONS,
    OVERLAPS,
    Bools,
    Floats,
    Found,
    Ints,
    Matching,
    Objects,
    match,
    overlapping_pairs,
)
from fedagem.detection.ranking import RankedClass, draw_frames
from models.detections import Detections
from models.letterbox import Letterbox

SIZES = {"small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
"""COCO's classes of object size by area in pixels."""
DRAWS = 1000
"""How many times the frames are resampled for an interval."""
BLOCK = 10
"""Consecutive frames that are drawn together."""


@dataclass(frozen=True)
class Precision:
    """Average precision at IoU 0.5 and averaged over 0.5 to 0.95; None if there was nothing to find."""

    map_50: float | None
    map: float | None


@dataclass(frozen=True)
class ClassPrecision(Precision):
    objects: int
    averaged: bool
    """Whether there are enough objects for the class to be part of the mean."""


@dataclass(frozen=True)
class DetectionScores(Precision):
    """The means are over the classes with enough objects; classes and sizes that do not occur are None."""

    per_class: dict[str, ClassPrecision]
    per_size: dict[str, Precision]
    """Empty if it was not asked for."""
    frames: int
    objects: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Rows:
    """Boxes of some frames: which frame and class, and the box as x, y, width, height in pixels of the frame."""

    frame: Ints
    label: Ints
    boxes: Floats

    @property
    def shorter_side(self) -> Floats:
        side: Floats = self.boxes[:, 2:].min(axis=1, initial=np.inf)
        return side


@dataclass(frozen=True)
class _Part:
    """What was added at once."""

    frames: int
    truth: _Rows
    found: _Rows
    scores: Floats


class DetectionEvaluator:
    """Collects detections and truths batch by batch and scores them together.

    With a minimum size, objects of which a side is shorter than `min_size` pixels are neither wanted nor
    punished: a detection of one counts as nothing, and so does a detection that small which hits no object.
    Classes with fewer than `least_objects` objects are scored, but not averaged: their precision is mostly chance.
    """

    def __init__(self, classes: Sequence[str], min_size: float = 0.0, least_objects: int = 1) -> None:
        self.classes = tuple(classes)
        self.min_size = min_size
        self.least_objects = least_objects
        self._parts: list[_Part] = []

    def add(self, detections: Detections, boxes: Tensor, letterbox: Letterbox) -> None:
        """A batch's detections and its targets (N, max_boxes, 5), both relative to the network's input."""
        image, slot = (boxes[..., 0] >= 0).nonzero(as_tuple=True)
        truth = letterbox.to_frame(box_convert(boxes[image, slot, 1:], "cxcywh", "xyxy"))
        found = letterbox.clip(letterbox.to_frame(detections.boxes))
        self._parts.append(
            _Part(
                len(boxes),
                _Rows(image.numpy(), boxes[image, slot, 0].long().numpy(), _sized(truth)),
                _Rows(detections.image.numpy(), detections.labels.numpy(), _sized(found)),
                detections.scores.numpy().astype(np.float64),
            )
        )

    def joined(self, others: Iterable[DetectionEvaluator]) -> DetectionEvaluator:
        """An evaluator of all frames of this one and of others, in this order."""
        together = DetectionEvaluator(self.classes, self.min_size, self.least_objects)
        together._parts = [part for evaluator in (self, *others) for part in evaluator._parts]
        return together

    def scored(self) -> ScoredFrames:
        """Compare everything that was added so far with the truth."""
        frames = np.cumsum([0, *(part.frames for part in self._parts)])
        truth = _concatenated([part.truth for part in self._parts], frames)
        found = _concatenated([part.found for part in self._parts], frames)
        scores = np.concatenate([np.zeros(0), *(part.scores for part in self._parts)])
        classes = len(self.classes)
        small = truth.shorter_side < self.min_size
        objects = Objects(truth.frame * classes + truth.label, truth.boxes, crowd=small, ignored=small)
        detections = _counted(found, scores, classes, objects, self.min_size)
        return ScoredFrames(self.classes, self.least_objects, int(frames[-1]), objects, detections)


class ScoredFrames:
    """Frames whose detections are compared with the truth."""

    def __init__(self, classes: Sequence[str], least_objects: int, frames: int, objects: Objects, found: Found) -> None:
        self.classes = tuple(classes)
        self.frames = frames
        self._objects = objects
        self._found = found
        self._ranked = self._rank(match(found, objects), objects)
        self._averaged = [int(ranked.objects.sum()) >= max(least_objects, 1) for ranked in self._ranked]

    def scores(self, sizes: bool = False) -> DetectionScores:
        """Precision over all frames; by size of the objects too, if asked for."""
        precision = _precisions(self._ranked)
        per_class = {
            name: ClassPrecision(
                *_mean_precision(precision[[number]]), int(self._ranked[number].objects.sum()), self._averaged[number]
            )
            for number, name in enumerate(self.classes)
        }
        return DetectionScores(
            *_mean_precision(precision[self._averaged]),
            per_class=per_class,
            per_size={name: self._of_size(*areas) for name, areas in SIZES.items()} if sizes else {},
            frames=self.frames,
            objects=sum(part.objects for part in per_class.values()),
        )

    def resampled(self, seed: int) -> tuple[Floats, dict[str, Floats]]:
        """mAP@0.5 and the AP@0.5 of each averaged class on other draws of the frames.

        The same seed and number of frames give the same draws, so that differences of models can be drawn, too.
        """
        draws = draw_frames(self.frames, BLOCK, DRAWS, seed)
        per_class = {
            name: ranked.resampled_precision(draws)
            for name, ranked, averaged in zip(self.classes, self._ranked, self._averaged, strict=True)
            if averaged
        }
        values = np.stack(list(per_class.values())) if per_class else np.full((1, DRAWS), np.nan)
        known = ~np.isnan(values)
        mean = np.divide(np.nansum(values, axis=0), known.sum(axis=0), out=np.zeros(DRAWS), where=known.any(axis=0))
        return mean, per_class

    def _of_size(self, least: float, most: float) -> Precision:
        def outside(boxes: Floats) -> Bools:
            area: Floats = boxes[:, 2:].prod(axis=1)
            return (area < least) | (area > most)

        objects = replace(self._objects, ignored=self._objects.ignored | outside(self._objects.boxes))
        matching = match(self._found, objects)
        ignored = matching.ignored | (~matching.hit & outside(self._found.boxes))
        ranked = self._rank(replace(matching, ignored=ignored), objects)
        return Precision(*_mean_precision(_precisions(ranked)))

    def _rank(self, matching: Matching, objects: Objects) -> list[RankedClass]:
        classes = len(self.classes)
        order = np.argsort(-self._found.scores, kind="stable")
        frame, label = np.divmod(self._found.group[order], classes)
        counts = np.bincount(objects.group[~objects.ignored], minlength=self.frames * classes)
        counts = counts.reshape(self.frames, classes)
        return [
            RankedClass(frame[mine], matching.hit[:, order[mine]], matching.ignored[:, order[mine]], counts[:, number])
            for number in range(classes)
            for mine in [np.flatnonzero(label == number)]
        ]


def _counted(found: _Rows, scores: Floats, classes: int, objects: Objects, min_size: float) -> Found:
    """Detections by group and falling score, without small ones that hit no object, and the best hundred of a group."""
    group = found.frame * classes + found.label
    order = np.lexsort((-scores, group))
    ranked = Found(group[order], found.boxes[order], scores[order])
    small = found.shorter_side[order] < min_size
    if small.any():
        wanted = ~objects.ignored
        large = Objects(objects.group[wanted], objects.boxes[wanted], objects.crowd[wanted], objects.ignored[wanted])
        hitting, _, _ = overlapping_pairs(ranked, large, OVERLAPS[0])
        small[hitting] = False
    kept = ~small
    group = ranked.group[kept]
    kept[kept] = np.arange(len(group)) - np.searchsorted(group, group) < MAX_DETECTIONS
    return Found(ranked.group[kept], ranked.boxes[kept], ranked.scores[kept])


def _sized(corners: Tensor) -> Floats:
    """x1, y1, x2, y2 as x, y, width, height."""
    sized: Floats = box_convert(corners, "xyxy", "xywh").numpy().astype(np.float64)
    return sized


def _concatenated(parts: Sequence[_Rows], first_frame: Ints) -> _Rows:
    none: Ints = np.zeros(0, dtype=np.int64)
    return _Rows(
        np.concatenate([none, *(part.frame + first for part, first in zip(parts, first_frame, strict=False))]),
        np.concatenate([none, *(part.label for part in parts)]),
        np.concatenate([np.zeros((0, 4)), *(part.boxes for part in parts)]),
    )


def _precisions(ranked: Sequence[RankedClass]) -> Floats:
    """(classes, overlaps), not a number for classes that do not occur."""
    rows = [[one.precision(level) for level in range(len(OVERLAPS))] for one in ranked]
    return np.array(rows, dtype=np.float64)


def _mean_precision(precision: Floats) -> tuple[float | None, float | None]:
    """At the smallest overlap and over all of them, of the classes that occur."""
    known = precision[~np.isnan(precision[:, 0])]
    return (float(known[:, 0].mean()), float(known.mean())) if len(known) else (None, None)
