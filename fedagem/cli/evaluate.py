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
    from fedagem.detection.objective import FrameObjective
    from fedagem.detection.precision import DetectionScores
    from models.detector import Detector


def model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options that name a model: the file, and packages that it may take classes from."""
    allow = "Let the model file name classes of this package, too; only for files that you trust."
    model = "The model: runs/NAME/save/last.safetensors, or a .pt file of plain weights and settings."
    command = click.option("--allow", "allowed", multiple=True, metavar="PACKAGE", help=allow)(command)
    return click.option("--model", "model_path", type=click.Path(path_type=Path), required=True, help=model)(command)


alias_option = click.option(
    "--alias",
    "aliases",
    multiple=True,
    metavar="NAME=CLASS",
    help="The drives' name for a class of the model, such as car=vehicle.",
)


@click.command("evaluate")
@model_options
@click.option("--plan", type=click.Path(path_type=Path), help="The plan of a classifier's tasks; else its run's.")
@click.option("--snippets", type=click.Path(path_type=Path), multiple=True, metavar="DIR...")
@click.argument("more_snippets", type=click.Path(path_type=Path), nargs=-1)
@alias_option
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
    aliases: tuple[str, ...],
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
        drives = (*snippets, *more_snippets)
        evaluate_detector(model_path, allowed, drives, named_aliases(aliases), min_size, pictures, out, scores)
    else:
        from fedagem.cli.evaluate_classifier import evaluate_classifier

        evaluate_classifier(model_path, allowed, plan, scores)


def evaluate_detector(
    model_path: Path,
    allowed: tuple[str, ...],
    snippets: tuple[Path, ...],
    aliases: dict[str, str],
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
    from fedagem.settings import suggestion

    if pictures < 0:
        raise FedAGemError(f"--pictures {pictures}: the number of pictures cannot be negative.")
    console = Console()
    checkpoint = load_detector(model_path, allowed)
    model = checkpoint.model
    objective = checkpoint.objective(**({} if min_size is None else {"min_size": min_size}))
    for name, known in aliases.items():
        if known not in model.classes:
            raise FedAGemError(f"--alias {name}={known}{suggestion(known, model.classes)}")
    drives = [SnippetFrames(directory, model.classes, aliases) for directory in snippets]
    for drive in drives:
        if drive.unknown:
            console.print(f"{drive.directory}: the model does not know {', '.join(drive.unknown)}: left out.")

    watch = Stopwatch()
    frames = (
        batch
        for drive in drives
        for batch in scoring_batches(
            track(drive, drive.directory.name, len(drive), console=console),
            model.input_size,
            domain=drive.directory.name,
        )
    )
    scored = score(model, objective, frames, watch)
    overall = scored.overall.scores(sizes=True)
    parts = {name: part.scores(sizes=True) for name, part in scored.domains.items()}
    console.print(_table(overall, parts, objective.min_size))
    document = {
        **overall.to_json(),
        "snippets": {name: part.to_json() for name, part in parts.items()},
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


def named_aliases(aliases: tuple[str, ...]) -> dict[str, str]:
    """What was given as --alias, checked."""
    for alias in aliases:
        if not all(alias.partition("=")):
            raise FedAGemError(f"--alias {alias!r} must be NAME=CLASS, such as car=vehicle.")
    return dict(alias.split("=", 1) for alias in aliases)  # type: ignore[misc]


def _table(overall: DetectionScores, parts: dict[str, DetectionScores], min_size: float) -> Table:
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

    for name, scores in overall.per_class.items():
        add(name, scores.map_50, scores.map, scores.objects)
    table.add_section()
    for name, size in overall.per_size.items():
        add(f"{name} objects", size.map_50, size.map, None)
    table.add_section()
    if len(parts) > 1:
        for name, part in parts.items():
            add_total(f"{name} ({part.frames} frames)", part)
        table.add_section()
    add_total(f"all ({overall.frames} frames)", overall)
    return table


def _draw(model: Detector, objective: FrameObjective, drives: list[SnippetFrames], count: int, out: Path) -> list[Path]:
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
        seen = draw_boxes(frame.image, found.boxes, found.labels, model.classes, found.scores)
        truth = draw_boxes(frame.image, corners(frame), torch.from_numpy(frame.labels), model.classes)
        path = out / f"{drive.directory.name}-{frame.name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(
            str(path), side_by_side(seen, f"predicted, score > {objective.thresholds.confidence:g}", truth, "truth")
        )
        paths.append(path)
    return paths
