"""Runs an exported detector beside the original over recorded frames: agreement, precision by domain, latency."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from fedagem.detection.inference import RANKED_CONFIDENCE
from fedagem.detection.objective import FrameObjective
from fedagem.detection.onnx_file import OnnxDetector
from fedagem.detection.parity import Parity
from fedagem.detection.precision import DetectionEvaluator, DetectionScores
from fedagem.detection.samples import LabelledFrame, frame_size, make_batch
from models.detections import Detections
from models.detector import Detector
from models.letterbox import Letterbox

MAX_BOXES = 100
TIMED = 50
"""How many frames are timed."""
WARM_UP = 5


@dataclass(frozen=True)
class Latency:
    """Milliseconds per frame, one frame at a time, on the processor that exported the model."""

    median: float
    slowest: float
    """The 95th percentile."""
    threads: str
    processor: str


class ScoresByDomain:
    """Collects what one detector found."""

    def __init__(self, classes: tuple[str, ...], min_size: float) -> None:
        self._classes, self._min_size = classes, min_size
        self._domains: dict[str, DetectionEvaluator] = {}

    def _new(self) -> DetectionEvaluator:
        return DetectionEvaluator(self._classes, self._min_size)

    def add(self, domain: str, found: Detections, boxes: torch.Tensor, letterbox: Letterbox) -> None:
        self._domains.setdefault(domain, self._new()).add(found, boxes, letterbox)

    def scores(self) -> dict[str, DetectionScores]:
        """By domain, `all` last."""
        parts = {**self._domains, "all": self._new().joined(self._domains.values())}
        return {name: part.scored().scores() for name, part in parts.items()}


@dataclass
class ExportCheck:
    """Both detectors side by side; frames of another size than the exported one takes are left out."""

    model: Detector
    objective: FrameObjective
    exported_model: OnnxDetector
    size: tuple[int, int]
    other_sizes: int = 0
    _timed: list[LabelledFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parity = Parity(self.objective.thresholds.confidence)
        self.original = ScoresByDomain(self.model.classes, self.objective.min_size)
        self.exported = ScoresByDomain(self.model.classes, self.objective.min_size)
        self._letterbox = Letterbox(self.size, self.model.input_size)
        self.model.eval()

    def add(self, domain: str, frame: LabelledFrame) -> None:
        """Compare what both find in a frame, and collect it for their precision."""
        if frame_size(frame) != self.size:
            self.other_sizes += 1
            return
        batch = make_batch([frame], self.model.input_size, MAX_BOXES)
        with torch.inference_mode():
            raw = self.objective.logits(self.model, batch)
            wanted = self.objective.detections(raw, RANKED_CONFIDENCE)
        found = self.exported_model(frame.image, RANKED_CONFIDENCE)
        self.parity.add(_in_frame(wanted, self._letterbox), found)
        self.original.add(domain, wanted, batch["boxes"], self._letterbox)
        relative = replace(found, boxes=self._letterbox.to_input(found.boxes))
        self.exported.add(domain, relative, batch["boxes"], self._letterbox)
        if len(self._timed) < TIMED:
            self._timed.append(frame)

    def latency(self) -> Latency:
        """How long the exported model takes for a frame, at its own confidence."""
        seconds = []
        for number in range(WARM_UP + TIMED):
            image = self._timed[number % len(self._timed)].image
            begin = time.perf_counter()
            self.exported_model(image)
            seconds.append(time.perf_counter() - begin)
        spent = np.array(seconds[WARM_UP:]) * 1000
        return Latency(
            median=round(float(np.median(spent)), 3),
            slowest=round(float(np.percentile(spent, 95)), 3),
            threads=self.exported_model.threads,
            processor=_processor(),
        )


def _in_frame(found: Detections, letterbox: Letterbox) -> Detections:
    return replace(found, boxes=letterbox.clip(letterbox.to_frame(found.boxes)))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
