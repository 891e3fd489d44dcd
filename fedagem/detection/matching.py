"""Which detections hit an object: COCO's greedy matching, for all frames and classes at once.

COCO goes through the detections of one frame and class in the order of their scores; each takes the free object that
it overlaps most. Frames and classes do not influence each other, so here the first contender of every group takes its
object at once, then the second of every group, and so on. A detection that overlaps nothing needs no turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OVERLAPS = np.linspace(0.5, 0.95, 10)
"""The overlaps from which on a detection is a hit; mAP@0.5 is about the first, mAP@[.5:.95] about all."""
MAX_DETECTIONS = 100
"""Of one class in one frame; of more, the best count."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Objects:
    """What there is to find, one row each."""

    group: Ints
    """The frame times the number of classes, plus the class."""
    boxes: Floats
    """(n, 4) as x, y, width, height."""
    crowd: Bools
    """What is neither wanted nor punished, however many detections are within it."""
    ignored: Bools
    """What is not wanted; a crowd always."""


@dataclass(frozen=True)
class Found:
    """Detections, one row each, sorted by group and within a group by falling score."""

    group: Ints
    boxes: Floats
    """(n, 4) as x, y, width, height."""
    scores: Floats


@dataclass(frozen=True)
class Matching:
    """What became of each detection and of each object, by overlap: (overlaps, n)."""

    hit: Bools
    ignored: Bools
    """Matched with something that is not wanted: neither a hit nor a false alarm."""
    taken: Bools
    """Objects that a detection has; a crowd is never taken."""


def match(found: Found, objects: Objects) -> Matching:
    """COCO's matching of detections with the objects of their frame and class."""
    hit = np.zeros((len(OVERLAPS), len(found.group)), dtype=np.bool_)
    ignored = np.zeros_like(hit)
    taken = np.zeros((len(OVERLAPS), len(objects.group)), dtype=np.bool_)
    detection, thing, overlap = overlapping_pairs(found, objects, OVERLAPS[0])
    if not len(detection):
        return Matching(hit, ignored, taken)

    turn = _turns(found.group, detection)
    # What is wanted goes before what is not, then the larger overlap, then the later object.
    preference = np.empty(len(detection), dtype=np.int64)
    by_preference = np.lexsort((thing, overlap, ~objects.ignored[thing]))
    preference[by_preference] = np.arange(len(detection))
    order = np.lexsort((detection, turn))
    detection, thing, overlap, turn = detection[order], thing[order], overlap[order], turn[order]
    preference = preference[order]
    place = np.empty(len(order), dtype=np.int64)
    place[preference] = np.arange(len(order))

    enough = overlap >= np.minimum(OVERLAPS, 1 - 1e-10)[:, None]
    begins = np.flatnonzero(np.diff(turn, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(turn)], strict=True):
        possible = enough[:, begin:end] & ~taken[:, thing[begin:end]]
        wish = np.where(possible, preference[begin:end], -1)
        first = np.flatnonzero(np.diff(detection[begin:end], prepend=-1))
        best = np.maximum.reduceat(wish, first, axis=1)
        level, column = np.nonzero(best >= 0)
        pair = place[best[level, column]]
        chosen = thing[pair]
        taken[level, chosen] = ~objects.crowd[chosen]
        ignored[level, detection[pair]] = objects.ignored[chosen]
        hit[level, detection[pair]] = ~objects.ignored[chosen]
    return Matching(hit, ignored, taken)


def overlapping_pairs(found: Found, objects: Objects, least: float) -> tuple[Ints, Ints, Floats]:
    """Detections and objects of one frame and class that overlap by at least so much: their rows and the overlap."""
    by_group = np.argsort(objects.group, kind="stable")
    sorted_group = objects.group[by_group]
    first = np.searchsorted(sorted_group, found.group, side="left")
    count = np.searchsorted(sorted_group, found.group, side="right") - first
    detection = np.repeat(np.arange(len(found.group)), count)
    within = np.arange(len(detection)) - np.repeat(np.cumsum(count) - count, count)
    thing = by_group[np.repeat(first, count) + within]
    overlap = _overlap(found.boxes[detection], objects.boxes[thing], objects.crowd[thing])
    enough = overlap >= least
    return detection[enough], thing[enough], overlap[enough]


def _overlap(found: Floats, truth: Floats, crowd: Bools) -> Floats:
    """Intersection over union, row by row; over the detection alone if it is compared with a crowd."""
    low = np.maximum(found[:, :2], truth[:, :2])
    high = np.minimum(found[:, :2] + found[:, 2:], truth[:, :2] + truth[:, 2:])
    intersection = (high - low).clip(min=0).prod(axis=1)
    area = found[:, 2:].prod(axis=1)
    union = np.where(crowd, area, area + truth[:, 2:].prod(axis=1) - intersection)
    overlap: Floats = np.divide(intersection, union, out=np.zeros_like(union), where=union > 0)
    return overlap


def _turns(group: Ints, detection: Ints) -> Ints:
    """For each pair, the place of its detection among those of its group that overlap anything."""
    contenders, pair_of = np.unique(detection, return_inverse=True)
    groups = group[contenders]
    turn: Ints = (np.arange(len(contenders)) - np.searchsorted(groups, groups))[pair_of]
    return turn
