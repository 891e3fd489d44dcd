"""Runs a detector over frames, batch by batch, and says how long the network itself took."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor

from fedagem.detection.evaluation import DetectionEvaluator, DetectionScores
from fedagem.detection.objective import DetectionObjective
from fedagem.detection.samples import LabelledFrame, frame_size, make_batch
from models.letterbox import Letterbox
from models.tiny_yolo import TinyYolo
from models.yolo_decode import Detections, detect

SCORING_CONFIDENCE = 0.005
"""mAP ranks all detections, so the threshold only cuts what could not matter."""


@dataclass(frozen=True)
class Thresholds:
    """When a box is reported, and when two boxes of one class are the same object."""

    confidence: float = 0.3
    overlap: float = 0.45


@dataclass
class Stopwatch:
    """Seconds by stage, to see what evaluation adds to inference."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, stage: str, since: float) -> float:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - since
        return now


class Detector:
    """A model with its thresholds."""

    def __init__(self, model: TinyYolo, thresholds: Thresholds) -> None:
        self.model = model.eval()
        self.thresholds = thresholds
        self._objective = DetectionObjective(model.config)
        self._anchors = torch.tensor(model.config.anchors)

    def head(self, batch: dict[str, Tensor]) -> Tensor:
        with torch.inference_mode():
            return self._objective.logits(self.model, batch)

    def detections(self, head: Tensor) -> Detections:
        return detect(head, self._anchors, confidence=self.thresholds.confidence, overlap=self.thresholds.overlap)

    def in_pixels(self, frames: list[LabelledFrame]) -> list[Detections]:
        """Detections of frames of one size, one set per frame, boxes in the frame's pixels."""
        config = self.model.config
        letterbox = Letterbox(frame_size(frames[0]), config.input_size)
        found = self.detections(self.head(make_batch(frames, config.input_size, 0)))
        boxes = letterbox.to_frame(found.boxes).clamp(min=0)
        boxes = torch.minimum(boxes, boxes.new_tensor(letterbox.frame_size * 2))
        return [
            Detections(found.image[mine], boxes[mine], found.scores[mine], found.labels[mine])
            for mine in (found.image == number for number in range(len(frames)))
        ]


def same_size_batches(frames: Iterable[LabelledFrame], size: int) -> Iterator[list[LabelledFrame]]:
    """Batches of at most `size` consecutive frames that share a frame size."""
    for _, group in groupby(frames, key=frame_size):
        batch: list[LabelledFrame] = []
        for frame in group:
            batch.append(frame)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch


def score_frames(
    model: TinyYolo,
    frames: Iterable[LabelledFrame],
    *,
    overlap: float = Thresholds.overlap,
    min_size: float = 0.0,
    batch_size: int = 32,
    max_boxes: int = 100,
    watch: Stopwatch | None = None,
) -> DetectionScores:
    """Mean average precision of a model on annotated frames, whose labels index the model's classes."""
    watch = watch or Stopwatch()
    detector = Detector(model, Thresholds(SCORING_CONFIDENCE, overlap))
    config = model.config
    evaluator = DetectionEvaluator(config.classes, min_size)
    now = time.perf_counter()
    for group in same_size_batches(frames, batch_size):
        batch = make_batch(group, config.input_size, max_boxes)
        now = watch.add("read", now)
        head = detector.head(batch)
        now = watch.add("inference", now)
        evaluator.add(detector.detections(head), batch["boxes"], Letterbox(frame_size(group[0]), config.input_size))
        now = watch.add("evaluation", now)
    scores = evaluator.scores()
    watch.add("evaluation", now)
    return scores
