"""The detectors that a run has kept, moment by moment, and what they make of frames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from carla_bridge.frames import Frame
from fedagem.detection.detector_file import Checkpoint, load_detector
from fedagem.detection.inference import detect_in_frames, same_size_groups
from fedagem.detection.judging import JudgedFrame, judge
from fedagem.detection.objective import FrameObjective
from fedagem.learning.model_file import SUFFIX

_AT_ONCE = 16
Judgements = dict[str, list[JudgedFrame]]
"""What each method's models made of a frame, moment by moment."""


@dataclass(frozen=True)
class Moment:
    """When a model was kept: after so many rounds, or at the end of the run."""

    rounds: int | None

    def __str__(self) -> str:
        return "at the end" if self.rounds is None else f"after round {self.rounds}"


@dataclass(frozen=True)
class KeptDetector:
    """A model as it was kept at one moment."""

    checkpoint: Checkpoint
    objective: FrameObjective

    @classmethod
    def load(cls, path: Path) -> KeptDetector:
        checkpoint = load_detector(path)
        return cls(checkpoint, checkpoint.objective())

    @property
    def classes(self) -> tuple[str, ...]:
        return self.checkpoint.model.classes

    def judged(self, frames: Sequence[Frame]) -> list[JudgedFrame]:
        """What is right and wrong in frames of one size."""
        found = detect_in_frames(self.checkpoint.model, self.objective, frames)
        return [judge(frame, each, self.objective.min_size) for frame, each in zip(frames, found, strict=True)]


def kept_models(directory: Path) -> dict[Moment, Path]:
    """The models that a run kept after some of its rounds, and its last."""
    kept = sorted(
        (int(match[1]), path)
        for path in (directory / "save").glob(f"after_round_*{SUFFIX}")
        if (match := re.fullmatch(rf"after_round_(\d+){re.escape(SUFFIX)}", path.name))
    )
    models = {Moment(number): path for number, path in kept}
    last = directory / "save" / f"last{SUFFIX}"
    return {**models, Moment(None): last} if last.exists() else models


def common_moments(kept: Sequence[dict[Moment, Path]]) -> list[Moment]:
    """The moments of which every run has kept its model."""
    return [moment for moment in kept[0] if all(moment in models for models in kept)] if kept else []


def judged_frames(
    detectors: Sequence[KeptDetector], frames: Iterator[Frame]
) -> Iterator[tuple[Frame, list[JudgedFrame]]]:
    """Each frame with what each of the detectors made of it."""
    for group in same_size_groups(frames, _AT_ONCE):
        by_detector = [detector.judged(group) for detector in detectors]
        yield from ((frame, list(judged)) for frame, *judged in zip(group, *by_detector, strict=True))


def difference(judgements: Judgements) -> int:
    """Between the methods, summed over the moments after the first; of a single method, between its moments."""
    errors = [[judged.errors for judged in by_moment] for by_moment in judgements.values()]
    if len(errors) == 1:
        return max(errors[0]) - min(errors[0])
    later = [row[1:] or row for row in errors]
    return sum(max(column) - min(column) for column in zip(*later, strict=True))
