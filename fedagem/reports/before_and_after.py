"""The same recorded frames as the models of runs saw them before the shift, after it and at the end.

Frames are chosen by a rule: those in which the methods differ most in what they miss and what they imagine.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetError, SnippetSource
from fedagem.detection.pictures import draw_judged
from fedagem.errors import DataError
from fedagem.plans.driving import DrivingSettings
from fedagem.reports.kept_models import Judgements, KeptDetector, common_moments, difference, kept_models
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


def before_and_after(directories: Sequence[Path]) -> list[Strip]:
    """Strips of the runs, one run per method, that share their evaluation frames and the moments of their models."""
    plans = [plan_of_run(directory) for directory in directories]
    data = plans[-1].data
    kept = [kept_models(directory) for directory in directories]
    moments = common_moments(kept)
    if not isinstance(data, DrivingSettings) or not moments:
        return []
    methods = {
        plan.label: [KeptDetector.load(models[moment]) for moment in moments]
        for plan, models in zip(plans, kept, strict=True)
    }
    classes = next(iter(methods.values()))[0].classes
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
            strips.append(
                Strip(f"{domain}: {frame.vehicle}, frame {frame.frame}", [str(moment) for moment in moments], rows)
            )
    return strips


def _candidates(sources: Sequence[SnippetSource]) -> Iterator[Frame]:
    """Evaluated frames with objects, evenly from all drives."""
    step = max(1, -(-sum(map(len, sources)) // _CANDIDATES))
    for source in sources:
        for frame in source.frames(range(min(step // 2, len(source) - 1), len(source), step)):
            if len(frame.boxes):
                yield frame


def _most_different(frames: Iterator[Frame], methods: dict[str, list[KeptDetector]]) -> list[tuple[Frame, Judgements]]:
    """The frames in which the methods' numbers of errors differ most; of equal ones the first."""
    try:
        judged = [
            (frame, {label: [detector.judged([frame])[0] for detector in models] for label, models in methods.items()})
            for frame in frames
        ]
    except SnippetError as problem:
        raise DataError(f"{problem}.") from problem
    return sorted(judged, key=lambda pair: -difference(pair[1]))[:_FRAMES]


def _address(image: NDArray[np.uint8]) -> str:
    encoded, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    assert encoded
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
