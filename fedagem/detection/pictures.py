"""Boxes drawn on frames, to look at what a detector sees."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedagem.detection.judging import JudgedFrame

Image = NDArray[np.uint8]

COLOURS = (
    (255, 183, 77),
    (79, 195, 247),
    (174, 213, 129),
    (240, 98, 146),
    (186, 104, 200),
    (255, 241, 118),
    (77, 182, 172),
    (229, 115, 115),
)
HIT, MISSED, ALARM = (0, 158, 115), (255, 77, 45), (255, 221, 51)
"""Green, red and yellow, which colour-blind people can tell apart by their brightness."""
TRUTH = (255, 255, 255)
CAPTION_HEIGHT = 22


def draw_boxes(
    image: Image, boxes: Tensor, labels: Tensor, classes: Sequence[str], scores: Tensor | None = None
) -> Image:
    """A copy of an RGB frame with boxes (n, 4) as x1, y1, x2, y2 in its pixels, with names and, if given, scores."""
    drawn = image.copy()
    names = [classes[label] for label in labels.tolist()]
    if scores is not None:
        names = [f"{name} {score:.2f}" for name, score in zip(names, scores.tolist(), strict=True)]
    for corners, label, name in zip(boxes.round().int().tolist(), labels.tolist(), names, strict=True):
        x1, y1, x2, y2 = corners
        colour = COLOURS[label % len(COLOURS)]
        cv2.rectangle(drawn, (x1, y1), (x2, y2), colour, 2)
        (width, height), _ = cv2.getTextSize(name, cv2.FONT_HERSHEY_SIMPLEX, 0.4, 1)
        top = y1 if y1 >= height + 6 else min(y2 + height + 6, drawn.shape[0] - 1)
        cv2.rectangle(drawn, (x1, top - height - 5), (x1 + width + 4, top), colour, cv2.FILLED)
        cv2.putText(drawn, name, (x1 + 2, top - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
    return drawn


def draw_judged(
    image: Image, judged: JudgedFrame, classes: Sequence[str], scale: int = 2, truth: Tensor | None = None
) -> Image:
    """A larger copy of an RGB frame with hits, missed objects and false alarms in their colours, errors with names.

    The boxes of `truth` are drawn thin, below the others.
    """
    drawn: Image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)  # type: ignore[assignment]
    for x1, y1, x2, y2 in (truth * scale).round().int().tolist() if truth is not None else ():
        cv2.rectangle(drawn, (x1, y1), (x2, y2), TRUTH, 1)
    for part, colour, named in ((judged.hits, HIT, False), (judged.alarms, ALARM, True), (judged.missed, MISSED, True)):
        for corners, label in zip((part.boxes * scale).round().int().tolist(), part.labels.tolist(), strict=True):
            x1, y1, x2, y2 = corners
            cv2.rectangle(drawn, (x1, y1), (x2, y2), colour, 2)
            if named:
                place = (x1, y1 - 4 if y1 > 14 else y2 + 12)
                cv2.putText(drawn, classes[label], place, cv2.FONT_HERSHEY_SIMPLEX, 0.4, colour, 1, cv2.LINE_AA)
    return drawn


def side_by_side(left: Image, left_caption: str, right: Image, right_caption: str) -> Image:
    """Two pictures of one size next to each other, each under its caption."""
    return np.hstack([captioned(left, left_caption), captioned(right, right_caption)])


def captioned(image: Image, caption: str) -> Image:
    """A picture below its caption."""
    bar = np.full((CAPTION_HEIGHT, image.shape[1], 3), 32, dtype=np.uint8)
    cv2.putText(bar, caption, (6, 15), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    return np.vstack([bar, image])


def write_image(path: str, image: Image) -> None:
    """Save an RGB picture; the suffix says in which format."""
    if not cv2.imwrite(path, cv2.cvtColor(image, cv2.COLOR_RGB2BGR)):
        raise OSError(f"the picture {path} cannot be written")
