"""Runs a detector over frames, batch by batch, and says how long the network itself took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor

from fedagem.detection.objective import FrameObjective
from fedagem.detection.precision import DetectionEvaluator, ScoredFrames
from fedagem.detection.samples import LabelledFrame, frame_size, make_batch
from models.detections import Detections
from models.detector import Detector
from models.letterbox import Letterbox

AnyFrame = TypeVar("AnyFrame", bound=LabelledFrame)

RANKED_CONFIDENCE = 0.01
"""mAP ranks all detections, so its threshold only cuts what could not matter."""


@dataclass(frozen=True)
class ScoringBatch:
    """Frames of one size, ready for the network, and the way back to their pixels."""

    batch: dict[str, Tensor]
    letterbox: Letterbox
    domain: str = ""


@dataclass(frozen=True)
class ScoredDomains:
    """All frames, and those of each domain (city, highway, a town) on their own."""

    overall: ScoredFrames
    domains: dict[str, ScoredFrames]


@dataclass
class Stopwatch:
    """Seconds by stage, to see what evaluation adds to inference."""

    clock: Callable[[], float] = time.perf_counter
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, stage: str, since: float) -> float:
        now = self.clock()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - since
        return now


def scoring_batches(
    frames: Iterable[LabelledFrame],
    input_size: tuple[int, int],
    *,
    domain: str = "",
    batch_size: int = 32,
    max_boxes: int = 100,
) -> Iterator[ScoringBatch]:
    """Consecutive frames of one size in batches; keep the list to score many models on the same frames."""
    for group in same_size_groups(frames, batch_size):
        letterbox = Letterbox(frame_size(group[0]), input_size)
        yield ScoringBatch(make_batch(group, input_size, max_boxes), letterbox, domain)


def same_size_groups(frames: Iterable[AnyFrame], size: int) -> Iterator[list[AnyFrame]]:
    """At most `size` consecutive frames that share their width and height."""
    for _, group in groupby(frames, key=frame_size):
        members: list[AnyFrame] = []
        for frame in group:
            members.append(frame)
            if len(members) == size:
                yield members
                members = []
        if members:
            yield members


def score(
    model: Detector,
    objective: FrameObjective,
    batches: Iterable[ScoringBatch],
    watch: Stopwatch | None = None,
    *,
    least_objects: int = 1,
) -> ScoredDomains:
    """Run a model over annotated frames whose labels index its classes, and compare what it detects with the truth."""
    watch = watch or Stopwatch()
    domains: dict[str, DetectionEvaluator] = {}
    model.eval()
    now = watch.clock()
    for part in batches:
        now = watch.add("read", now)
        with torch.inference_mode():
            head = objective.logits(model, part.batch)
        now = watch.add("inference", now)
        found = objective.detections(head, RANKED_CONFIDENCE)
        if part.domain not in domains:
            domains[part.domain] = DetectionEvaluator(model.classes, objective.min_size, least_objects)
        domains[part.domain].add(found, part.batch["boxes"], part.letterbox)
        now = watch.add("evaluation", now)
    together = DetectionEvaluator(model.classes, objective.min_size, least_objects).joined(domains.values())
    scored = ScoredDomains(together.scored(), {name: part.scored() for name, part in domains.items()})
    watch.add("evaluation", now)
    return scored


def detect_in_frames(model: Detector, objective: FrameObjective, frames: Sequence[LabelledFrame]) -> list[Detections]:
    """Detections of frames of one size at the objective's thresholds, per frame, boxes in the frame's pixels."""
    letterbox = Letterbox(frame_size(frames[0]), model.input_size)
    model.eval()
    with torch.inference_mode():
        found = objective.detections(objective.logits(model, make_batch(frames, model.input_size, max_boxes=0)))
    boxes = letterbox.clip(letterbox.to_frame(found.boxes))
    return [
        Detections(found.image[mine], boxes[mine], found.scores[mine], found.labels[mine])
        for mine in (found.image == number for number in range(len(frames)))
    ]
