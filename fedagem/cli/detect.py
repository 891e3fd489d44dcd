"""`fedagem detect`: run a model on pictures, a video or a recorded drive, and draw what it sees."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedagem.cli.evaluate import model_options
from fedagem.errors import DataError, FedAGemError

if TYPE_CHECKING:
    from fedagem.detection.drives import SnippetFrames
    from fedagem.detection.footage import Pictures, Video, Write
    from models.detections import Detections

BATCH = 16


@click.command("detect")
@click.argument("source", type=click.Path(path_type=Path))
@model_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for what is drawn.")
@click.option("--confidence", type=float, help="Least score of a box that is shown.")
@click.option("--overlap", type=float, help="IoU from which two boxes of a class are one object.")
def command(
    source: Path,
    model_path: Path,
    allowed: tuple[str, ...],
    out: Path,
    confidence: float | None,
    overlap: float | None,
) -> None:
    """Detect objects in SOURCE: a picture, a folder of pictures, a video, or a recorded drive.

    Writes the frames (for a video, a video) with boxes drawn, and `detections.jsonl` with a line per frame.
    """
    from rich.console import Console
    from rich.progress import track

    from fedagem.detection.detector_file import load_detector
    from fedagem.detection.inference import detect_in_frames, same_size_groups
    from fedagem.detection.pictures import draw_boxes

    checkpoint = load_detector(model_path, allowed)
    model = checkpoint.model
    usual = checkpoint.trained_for.settings.get("thresholds", {})
    objective = checkpoint.objective(thresholds={**usual, **_given(confidence=confidence, overlap=overlap)})

    frames = _open(source)
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    lines = out / "detections.jsonl"
    count = 0
    with _writer(source, frames, out) as write, lines.open("w", encoding="utf-8") as results:
        for group in same_size_groups(track(frames, "detecting", len(frames), console=console), BATCH):
            for frame, found in zip(group, detect_in_frames(model, objective, group), strict=True):
                names = model.classes
                write(frame.name, draw_boxes(frame.image, found.boxes, found.labels, names, found.scores))
                results.write(json.dumps({"frame": frame.name, "objects": _objects(found, names)}) + "\n")
                count += len(found.scores)
    console.print(f"{count} objects, drawn in {out} and listed in {lines}")


def _given(**thresholds: float | None) -> dict[str, float]:
    for name, value in thresholds.items():
        if value is not None and not 0 <= value <= 1:
            raise FedAGemError(f"--{name} is {value}: it must be between 0 and 1.")
    return {name: value for name, value in thresholds.items() if value is not None}


def _open(source: Path) -> Pictures | Video | SnippetFrames:
    from fedagem.detection.drives import SnippetFrames, is_snippet
    from fedagem.detection.footage import Pictures, Video, is_picture

    if not source.exists():
        raise DataError(f"there is nothing at {source}.")
    if is_snippet(source):
        return SnippetFrames(source)
    if source.is_dir():
        return Pictures.of_folder(source)
    return Pictures([source]) if is_picture(source) else Video(source)


def _writer(source: Path, frames: object, out: Path) -> AbstractContextManager[Write]:
    from fedagem.detection.footage import Video, picture_writer, video_writer

    return video_writer(out / f"{source.stem}.mp4", frames.rate) if isinstance(frames, Video) else picture_writer(out)


def _objects(found: Detections, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = zip(found.labels.tolist(), found.scores.tolist(), found.boxes.tolist(), strict=True)
    return [
        {
            "class": classes[label],
            "score": round(score, 4),
            "box": [round(v, 1) for v in (x1, y1, x2 - x1, y2 - y1)],
        }
        for label, score, (x1, y1, x2, y2) in rows
    ]
