"""`fedagem evaluate`: how good a trained model is on recorded drives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedagem.errors import FedAGemError

if TYPE_CHECKING:
    from rich.table import Table

    from fedagem.detection.drives import SnippetFrames
    from fedagem.detection.inference import DomainScores
    from fedagem.detection.objective import DetectionObjective
    from fedagem.detection.precision import DetectionScores
    from models.tiny_yolo import TinyYolo


def model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options that name a model: the file, and packages that it may take classes from."""
    allow = "Let the model file name classes of this package, too; only for files that you trust."
    model = "The model: runs/NAME/save/last.safetensors, or a .pt file of plain weights and settings."
    command = click.option("--allow", "allowed", multiple=True, metavar="PACKAGE", help=allow)(command)
    return click.option("--model", "model_path", type=click.Path(path_type=Path), required=True, help=model)(command)


@click.command("evaluate")
@model_options
@click.option("--plan", type=click.Path(path_type=Path), help="The plan of a classifier's tasks; else its run's.")
@click.option("--snippets", type=click.Path(path_type=Path), multiple=True, metavar="DIR...")
@click.argument("more_snippets", type=click.Path(path_type=Path), nargs=-1)
@click.option("--min-size", type=float, help="Leave out objects with a side shorter than this many pixels.")
@click.option("--pictures", default=0, help="Draw this many frames, predictions next to the truth.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for scores.json and pictures.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the scores here instead.")
def command(
    model_path: Path,
    allowed: tuple[str, ...],
    plan: Path | None,
    snippets: tuple[Path, ...],
    more_snippets: tuple[Path, ...],
    min_size: float | None,
    pictures: int,
    out: Path | None,
    json_path: Path | None,
) -> None:
    """How good a model is: a detector on recorded drives (--snippets), a classifier on the tasks of its plan."""
    out = out or model_path.with_name(f"{model_path.stem}-evaluation")
    scores = json_path or out / "scores.json"
    if snippets or more_snippets:
        if plan is not None:
            raise FedAGemError(
                "--plan names a classifier's tasks, but --snippets a detector's drives: give one of them."
            )
        evaluate_detector(model_path, allowed, (*snippets, *more_snippets), min_size, pictures, out, scores)
    else:
        from fedagem.cli.evaluate_classifier import evaluate_classifier

        evaluate_classifier(model_path, allowed, plan, scores)


def evaluate_detector(
    model_path: Path,
    allowed: tuple[str, ...],
    snippets: tuple[Path, ...],
    min_size: float | None,
    pictures: int,
    out: Path,
    json_path: Path,
) -> None:
    """Score a detection model, print the table, write the JSON and the pictures."""
    from rich.console import Console
    from rich.progress import track

    from fedagem.detection.detector_file import load_detector
    from fedagem.detection.drives import SnippetFrames
    from fedagem.detection.inference import Stopwatch, score, scoring_batches
    from fedagem.detection.objective import DetectionObjective

    if pictures < 0:
        raise FedAGemError(f"--pictures {pictures}: the number of pictures cannot be negative.")
    console = Console()
    checkpoint = load_detector(model_path, allowed)
    model = checkpoint.model
    settings = {**checkpoint.objective_settings, "anchors": model.config.anchors}
    if min_size is not None:
        settings["min_size"] = min_size
    objective = DetectionObjective(**settings)
    drives = [SnippetFrames(directory, model.config.classes) for directory in snippets]
    for drive in drives:
        if drive.unknown:
            console.print(f"{drive.directory}: the model does not know {', '.join(drive.unknown)}: left out.")

    watch = Stopwatch()
    frames = (
        batch
        for drive in drives
        for batch in scoring_batches(
            track(drive, drive.directory.name, len(drive), console=console),
            model.config.input_size,
            domain=drive.directory.name,
        )
    )
    scores = score(model, objective, frames, watch)
    console.print(_table(scores, objective.min_size))
    document = {
        **scores.overall.to_json(),
        "snippets": {name: part.to_json() for name, part in scores.domains.items()},
        "min_size": objective.min_size,
        "seconds": sum(watch.seconds.values()),
        "seconds_by_stage": watch.seconds,
        "model": str(model_path),
    }
    json_path.parent.mkdir(parents=True, exist_ok=True)
    json_path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    console.print(f"wrote {json_path}")
    for path in _draw(model, objective, drives, pictures, out):
        console.print(f"wrote {path}")


def _table(scores: DomainScores, min_size: float) -> Table:
    from rich.table import Table

    table = Table(title=f"objects of at least {min_size:g} pixels" if min_size else None)
    table.add_column("")
    for name in ("mAP@0.5", "mAP@[.5:.95]", "objects"):
        table.add_column(name, justify="right")

    def add(name: str, at_half: float | None, mean: float | None, objects: int | None) -> None:
        numbers = ["-" if value is None else f"{value:.3f}" for value in (at_half, mean)]
        table.add_row(name, *numbers, "" if objects is None else str(objects))

    def add_total(name: str, total: DetectionScores) -> None:
        add(name, total.map_50, total.map, total.objects)

    for name, part in scores.overall.per_class.items():
        add(name, part.map_50, part.map, part.objects)
    table.add_section()
    for name, size in scores.overall.per_size.items():
        add(f"{name} objects", size.map_50, size.map, None)
    table.add_section()
    if len(scores.domains) > 1:
        for name, domain in scores.domains.items():
            add_total(f"{name} ({domain.frames} frames)", domain)
        table.add_section()
    add_total(f"all ({scores.overall.frames} frames)", scores.overall)
    return table


def _draw(
    model: TinyYolo, objective: DetectionObjective, drives: list[SnippetFrames], count: int, out: Path
) -> list[Path]:
    """Frames spread evenly over all drives, predictions on the left and the truth on the right."""
    import torch

    from fedagem.detection.inference import detect_in_frames
    from fedagem.detection.pictures import draw_boxes, side_by_side, write_image
    from fedagem.detection.samples import corners

    total = sum(len(drive) for drive in drives)
    count = min(count, total)
    wanted = {(2 * number + 1) * total // (2 * count) for number in range(count)}
    paths = []
    numbered = enumerate((drive, frame) for drive in drives for frame in drive)
    for number, (drive, frame) in numbered:
        if number not in wanted:
            continue
        (found,) = detect_in_frames(model, objective, [frame])
        seen = draw_boxes(frame.image, found.boxes, found.labels, model.config.classes, found.scores)
        truth = draw_boxes(frame.image, corners(frame), torch.from_numpy(frame.labels), model.config.classes)
        path = out / f"{drive.directory.name}-{frame.name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(
            str(path), side_by_side(seen, f"predicted, score > {objective.thresholds.confidence:g}", truth, "truth")
        )
        paths.append(path)
    return paths
