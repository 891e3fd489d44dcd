"""The same recorded frames as the models of runs saw them before the shift, after it and at the end.

Frames are chosen by a rule: those in which the methods differ most in what they miss and what they imagine.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetError, SnippetSource
from fedagem.detection.detector_file import Checkpoint, load_detector
from fedagem.detection.inference import detect_in_frames
from fedagem.detection.judging import JudgedFrame, judge
from fedagem.detection.objective import FrameObjective
from fedagem.detection.pictures import draw_judged
from fedagem.errors import DataError
from fedagem.learning.model_file import SUFFIX
from fedagem.plans.driving import DrivingSettings
from fedagem.runs.evaluation_frames import evaluation_sources
from fedagem.runs.folder import plan_of_run

_CANDIDATES = 60
"""Frames of each domain, spread over all of its drives, among which is chosen."""
_FRAMES = 2
"""How many frames of each domain are shown."""


@dataclass(frozen=True)
class Strip:
    """One frame: a row of pictures for each method, a column for each moment."""

    title: str
    moments: list[str]
    rows: list[tuple[str, list[str]]]
    """The method, and its pictures as data addresses."""


@dataclass(frozen=True)
class _Detector:
    """A model as it was kept at one moment."""

    checkpoint: Checkpoint
    objective: FrameObjective

    @classmethod
    def load(cls, path: Path) -> _Detector:
        checkpoint = load_detector(path)
        return cls(checkpoint, checkpoint.objective())

    def judged(self, frame: Frame) -> JudgedFrame:
        [found] = detect_in_frames(self.checkpoint.model, self.objective, [frame])
        return judge(frame, found, self.objective.min_size)


Judgements = dict[str, list[JudgedFrame]]
"""What each method's models made of a frame, moment by moment."""


def before_and_after(directories: Sequence[Path]) -> list[Strip]:
    """Strips of the runs, one run per method, that share their evaluation frames and the moments of their models."""
    plans = [plan_of_run(directory) for directory in directories]
    data = plans[-1].data
    kept = [_models(directory) for directory in directories]
    moments = [moment for moment in kept[0] if all(moment in models for models in kept)] if kept else []
    if not isinstance(data, DrivingSettings) or not moments:
        return []
    methods = {
        plan.label: [_Detector.load(models[moment]) for moment in moments]
        for plan, models in zip(plans, kept, strict=True)
    }
    classes = next(iter(methods.values()))[0].checkpoint.model.classes
    strips = []
    domains: dict[str, list[SnippetSource]] = {}
    for domain, source in evaluation_sources(data):
        domains.setdefault(domain, []).append(source)
    for domain, sources in domains.items():
        for frame, judgements in _most_different(_candidates(sources), methods):
            rows = [
                (label, [_address(draw_judged(frame.image, judged, classes)) for judged in by_moment])
                for label, by_moment in judgements.items()
            ]
            strips.append(Strip(f"{domain}: {frame.vehicle}, frame {frame.frame}", moments, rows))
    return strips


def _models(directory: Path) -> dict[str, Path]:
    """The models that a run kept after some of its rounds, and its last."""
    kept = sorted(
        (int(match[1]), path)
        for path in (directory / "save").glob(f"after_round_*{SUFFIX}")
        if (match := re.fullmatch(rf"after_round_(\d+){re.escape(SUFFIX)}", path.name))
    )
    models = {f"after round {number}": path for number, path in kept}
    last = directory / "save" / f"last{SUFFIX}"
    return {**models, "at the end": last} if last.exists() else models


def _candidates(sources: Sequence[SnippetSource]) -> Iterator[Frame]:
    """Evaluated frames with objects, evenly from all drives."""
    step = max(1, -(-sum(map(len, sources)) // _CANDIDATES))
    for source in sources:
        for frame in source.frames(range(min(step // 2, len(source) - 1), len(source), step)):
            if len(frame.boxes):
                yield frame


def _most_different(frames: Iterator[Frame], methods: dict[str, list[_Detector]]) -> list[tuple[Frame, Judgements]]:
    """The frames in which the methods' numbers of errors differ most; of equal ones the first."""
    try:
        judged = [
            (frame, {label: [detector.judged(frame) for detector in models] for label, models in methods.items()})
            for frame in frames
        ]
    except SnippetError as problem:
        raise DataError(f"{problem}.") from problem
    return sorted(judged, key=lambda pair: -_difference(pair[1]))[:_FRAMES]


def _difference(judgements: Judgements) -> int:
    """Between the methods, summed over the moments after the first; of a single method, between its moments."""
    errors = [[judged.errors for judged in by_moment] for by_moment in judgements.values()]
    if len(errors) == 1:
        return max(errors[0]) - min(errors[0])
    later = [row[1:] or row for row in errors]
    return sum(max(column) - min(column) for column in zip(*later, strict=True))


def _address(image: NDArray[np.uint8]) -> str:
    encoded, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    assert encoded
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
