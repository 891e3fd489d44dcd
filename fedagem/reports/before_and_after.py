"""The same recorded frames as a run's model saw them before and after the shift, next to the truth."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedagem.detection.detector_file import load_detector
from fedagem.detection.footage import NamedFrame
from fedagem.detection.inference import detect_in_frames
from fedagem.detection.objective import DetectionObjective
from fedagem.detection.pictures import draw_boxes
from fedagem.detection.samples import corners
from fedagem.learning.model_file import SUFFIX
from fedagem.plans.driving import DrivingSettings, Holdout
from fedagem.runs.folder import plan_of_run
from fedagem.tasks.settings import StreamSettings

_FRAMES_PER_DOMAIN = 2


def before_and_after(directory: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """For some frames of each domain: a title, and captioned pictures as data addresses."""
    data = plan_of_run(directory).data
    domains = data.evaluation.paths if isinstance(data, DrivingSettings) else {}
    models = _models(directory)
    if not domains or not models:
        return []
    detectors = {caption: load_detector(path) for caption, path in models.items()}
    classes = next(iter(detectors.values())).model.config.classes
    rows = []
    for domain, paths in domains.items():
        for frame in _frames(paths, classes, _holdout(data)):
            truth = draw_boxes(frame.image, corners(frame), _labels(frame), classes)
            pictures = [("ground truth", _address(truth))]
            for caption, checkpoint in detectors.items():
                settings = {**checkpoint.objective_settings, "anchors": checkpoint.model.config.anchors}
                [found] = detect_in_frames(checkpoint.model, DetectionObjective(**settings), [frame])
                drawn = draw_boxes(frame.image, found.boxes, found.labels, classes, found.scores)
                pictures.append((caption, _address(drawn)))
            rows.append((f"{domain}, frame {frame.name}", pictures))
    return rows


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


def _holdout(data: StreamSettings | DrivingSettings) -> Holdout | None:
    """What keeps the evaluation's frames out of training; None if the plan scores others too."""
    return data.holdout if isinstance(data, DrivingSettings) and data.evaluation.held_out_only else None


def _frames(paths: list[str], classes: tuple[str, ...], holdout: Holdout | None) -> list[NamedFrame]:
    """Frames with objects, from different parts of the drive; only held-out ones if a plan scores only those."""
    from fedagem.detection.drives import SnippetFrames, find_drives

    def evaluated(number: int) -> bool:
        return holdout is None or holdout.keeps_out(number)

    drives = [SnippetFrames(folder, classes) for path in paths for folder in find_drives(path)]
    total = sum(evaluated(number) for drive in drives for number in range(len(drive)))
    candidates = (frame for drive in drives for number, frame in enumerate(drive) if evaluated(number))
    chosen: list[NamedFrame] = []
    for count, frame in enumerate(candidates):
        due = count >= (2 * len(chosen) + 1) * total // (2 * _FRAMES_PER_DOMAIN)
        if due and len(frame.boxes):
            chosen.append(frame)
        if len(chosen) == _FRAMES_PER_DOMAIN:
            break
    return chosen


def _labels(frame: NamedFrame) -> Tensor:
    return torch.from_numpy(np.asarray(frame.labels))


def _address(image: NDArray[np.uint8]) -> str:
    encoded, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    assert encoded
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
