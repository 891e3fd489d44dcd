"""A film of the evaluation frames as the models of two runs saw them, side by side, moment after moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import cv2
import numpy as np

from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetError, SnippetSource
from fedagem.detection.footage import video_writer
from fedagem.detection.judging import JudgedFrame
from fedagem.detection.pictures import Image, captioned, draw_judged, side_by_side, write_image
from fedagem.detection.samples import corners
from fedagem.errors import DataError, FedAGemError
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.reports.kept_models import (
    Judgements,
    KeptDetector,
    Moment,
    common_moments,
    difference,
    judged_frames,
    kept_models,
)
from fedagem.reports.summary import BASELINE
from fedagem.runs.evaluation_frames import evaluation_sources
from fedagem.runs.folder import plan_of_run

Watched = Callable[["Iterator[Shot]"], "Iterable[Shot]"]
"""Lets shots pass, and shows how far the film is."""
_FRAMES_PER_SECOND = 10.0
_LEAST_WIDTH = 480
"""Small frames are enlarged to about this width, so that boxes and captions can be read."""


@dataclass(frozen=True)
class Shot:
    """A frame at a moment, and what the model of either run made of it."""

    moment: Moment
    domain: str
    frame: Frame
    judged: tuple[JudgedFrame, JudgedFrame]


def choose_pair(directories: Sequence[Path]) -> tuple[Path, Path]:
    """Two runs of a comparison: the baseline left and Fed-A-GEM right, if there are both, of the first seed of both."""
    plans = {directory: plan_of_run(directory) for directory in directories}
    driving = [directory for directory, plan in plans.items() if isinstance(plan.data, DrivingSettings)]
    if not driving:
        raise FedAGemError(f"{_names(directories)} trained no detector: a film shows the runs of a driving plan.")
    kept = [run for run in driving if any(moment.rounds is not None for moment in kept_models(run))]
    if not kept:
        raise FedAGemError(
            f"{_names(driving)} kept no model before the end: name rounds in aggregator.settings.snapshots, one "
            "before the shift and one after it, and run the plan again."
        )
    left, right = _methods_of([plans[run] for run in kept])
    for one, other in product(kept, kept):
        if (plans[one].label, plans[other].label) == (left, right) and _comparable(plans[one], plans[other]):
            return one, other
    raise FedAGemError(
        f"no run of {left} among these has the seed and the evaluation frames of one of {right}: name the runs of one "
        "comparison."
    )


def _methods_of(plans: Sequence[Plan]) -> tuple[str, str]:
    """What is left and what is right."""
    labels = list(dict.fromkeys(plan.label for plan in plans))
    refined = list(dict.fromkeys(plan.label for plan in plans if plan.training.fedagem))
    if BASELINE in labels and len(refined) == 1:
        return BASELINE, refined[0]
    if len(labels) != 2:
        raise FedAGemError(
            f"these runs have kept models of {', '.join(labels)}, and a film shows two methods: name the runs of two."
        )
    return labels[0], labels[1]


def _comparable(one: Plan, other: Plan) -> bool:
    first, second = one.data, other.data
    assert isinstance(first, DrivingSettings)
    assert isinstance(second, DrivingSettings)
    return (one.seed, first.evaluation, first.classes) == (other.seed, second.evaluation, second.classes)


def _names(directories: Sequence[Path]) -> str:
    return ", ".join(map(str, directories))


class Film:
    """All evaluation frames at every moment of which both runs have kept their models."""

    def __init__(self, left: Path, right: Path) -> None:
        self._runs = (left, right)
        self._plan = plan_of_run(left)
        self.labels = (self._plan.label, plan_of_run(right).label)
        assert isinstance(self._plan.data, DrivingSettings)
        self._sources = evaluation_sources(self._plan.data)
        if not self._sources:
            raise DataError(f"{left} has no evaluation frames: its data_loader.settings.evaluation.paths are empty.")
        self._kept = tuple(kept_models(run) for run in self._runs)
        self.moments = common_moments(self._kept)
        if len(self.moments) < 2:
            raise FedAGemError(
                f"{left} and {right} kept their models after different rounds: run both with the same "
                "aggregator.settings.snapshots."
            )
        self._detectors = {
            moment: tuple(KeptDetector.load(kept[moment]) for kept in self._kept) for moment in self.moments
        }

    def __len__(self) -> int:
        return len(self.moments) * sum(len(source) for _, source in self._sources)

    def shots(self) -> Iterator[Shot]:
        """All frames at the first moment, all at the next, and so on."""
        for moment in self.moments:
            for domain, source in self._sources:
                yield from self._shots_of(moment, domain, source, range(len(source)))

    def shot(self, moment: Moment, number: int) -> Shot:
        """One frame at a moment; frames are counted over all drives."""
        for domain, source in self._sources:
            if number < len(source):
                [shot] = self._shots_of(moment, domain, source, [number])
                return shot
            number -= len(source)
        raise IndexError(number)

    def picture(self, shot: Shot) -> Image:
        """A frame twice, with what either method got right, missed and imagined, and with what there is."""
        scale = max(1, round(_LEAST_WIDTH / shot.frame.image.shape[1]))
        halves = [
            draw_judged(shot.frame.image, judged, self._classes, scale, truth=corners(shot.frame))
            for judged in shot.judged
        ]
        below = [f"{label}: {_counts(judged)}" for label, judged in zip(self.labels, shot.judged, strict=True)]
        frame = f"{shot.domain}, {shot.frame.vehicle}, frame {shot.frame.frame}"
        return captioned(side_by_side(halves[0], below[0], halves[1], below[1]), f"{self._when(shot.moment)}: {frame}")

    def _shots_of(self, moment: Moment, domain: str, source: SnippetSource, numbers: Iterable[int]) -> Iterator[Shot]:
        try:
            for frame, (left, right) in judged_frames(self._detectors[moment], source.frames(numbers)):
                yield Shot(moment, domain, frame, (left, right))
        except SnippetError as problem:
            raise DataError(f"{problem}.") from problem

    @property
    def _classes(self) -> tuple[str, ...]:
        return self._detectors[self.moments[0]][0].classes

    def _when(self, moment: Moment) -> str:
        """When the models were kept, and whether a vehicle had been somewhere else by then."""
        shift = self._plan.workload.shift_round
        rounds = self._plan.aggregator.rounds_to_train if moment.rounds is None else moment.rounds
        if shift is None:
            return str(moment)
        return f"{moment}, {'before' if rounds <= shift else 'after'} the shift"


def write_film(film: Film, video: Path, still: Path | None, watched: Watched) -> None:
    """Write the film; if asked, also its picture that shows best how the methods differ. `watched` sees every shot."""
    judgements: dict[int, Judgements] = {}
    video.parent.mkdir(parents=True, exist_ok=True)
    partial = video.with_name(f".{video.stem}.partial{video.suffix}")
    per_moment = len(film) // len(film.moments)
    try:
        with video_writer(partial, _FRAMES_PER_SECOND) as write:
            size: tuple[int, int] | None = None
            for number, shot in enumerate(watched(film.shots())):
                picture = film.picture(shot)
                size = size or (_even(picture.shape[1]), _even(picture.shape[0]))
                write("", _on_canvas(picture, size))
                if len(shot.frame.boxes):
                    rows = judgements.setdefault(number % per_moment, {"left": [], "right": []})
                    for row, judged in zip(rows.values(), shot.judged, strict=True):
                        row.append(judged)
        partial.replace(video)
    finally:
        partial.unlink(missing_ok=True)
    if still is not None:
        if not judgements:
            raise DataError("the evaluation frames show no object, so there is no picture for --still.")
        moment, number = _most_different(judgements)
        still.parent.mkdir(parents=True, exist_ok=True)
        write_image(str(still), film.picture(film.shot(film.moments[moment], number)))


def _most_different(judgements: Mapping[int, Judgements]) -> tuple[int, int]:
    """The moment and the frame, chosen as the page chooses its frames; of moments the one that differs most."""
    number = max(judgements, key=lambda each: difference(judgements[each]))
    left, right = judgements[number].values()
    gaps = [abs(one.errors - other.errors) for one, other in zip(left, right, strict=True)]
    return max(range(1, len(gaps)), key=lambda each: gaps[each]), number


def _counts(judged: JudgedFrame) -> str:
    return f"{len(judged.hits)} right, {len(judged.missed)} missed, {len(judged.alarms)} false"


def _even(length: int) -> int:
    """Video codecs take even sizes only."""
    return length + length % 2


def _on_canvas(picture: Image, size: tuple[int, int]) -> Image:
    """A picture in a film of this width and height: on black, and smaller if it does not fit."""
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    scale = min(1.0, size[0] / width, size[1] / height)
    if scale < 1:
        inside = (int(width * scale), int(height * scale))
        picture = cv2.resize(picture, inside, interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    canvas = np.zeros((size[1], size[0], 3), dtype=np.uint8)
    canvas[: picture.shape[0], : picture.shape[1]] = picture
    return canvas
