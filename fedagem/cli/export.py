"""`fedagem export`: a trained detector as an ONNX file that is checked against the original, with a model card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedagem.cli.anchors import SizeType
from fedagem.cli.evaluate import alias_option, model_options, named_aliases
from fedagem.errors import DataError, FedAGemError

if TYPE_CHECKING:
    from rich.console import Console

    from fedagem.detection.samples import LabelledFrame
    from fedagem.plans.plan import Plan
    from fedagem.reports.model_card import ModelCard


@click.command("export")
@model_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The ONNX file; its card is beside it.")
@click.option(
    "--snippets",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Recorded drives to check it on; else those that its run was scored on.",
)
@alias_option
@click.option("--frame-size", type=SizeType(), help="The camera's frames, such as 416x256; else that of the drives.")
def command(
    model_path: Path,
    allowed: tuple[str, ...],
    out: Path,
    snippets: tuple[Path, ...],
    aliases: tuple[str, ...],
    frame_size: tuple[int, int] | None,
) -> None:
    """Write a detector as one ONNX file, with scaling, decoding and non-maximum suppression inside.

    The file is run by ONNX Runtime on recorded frames and kept only if it says the same as the model: boxes within a
    pixel, scores within 0.001. Beside it are a model card (.md) and the same numbers as JSON.
    """
    import json
    from itertools import chain

    from rich.console import Console
    from rich.progress import track

    from fedagem.detection.detector_file import load_detector
    from fedagem.detection.export_check import ExportCheck
    from fedagem.detection.onnx_file import OnnxDetector, require_onnx, write_onnx
    from fedagem.detection.parity import BOX_TOLERANCE, SCORE_TOLERANCE
    from fedagem.detection.samples import frame_size as size_of
    from fedagem.files import write_file
    from fedagem.reports.model_card import ModelCard

    require_onnx()
    if out.suffix != ".onnx":
        raise FedAGemError(f"--out is {out}, but the file must end in .onnx.")
    console = Console()
    checkpoint = load_detector(model_path, allowed)
    model, objective = checkpoint.model, checkpoint.objective()
    plan = _plan_of(model_path)
    count, frames = _frames(model.classes, snippets, named_aliases(aliases), plan, model_path)
    first = next((pair for pair in frames if frame_size in (None, size_of(pair[1]))), None)
    if first is None:
        raise DataError(f"none of the {count} frames has the size {frame_size}, so that nothing could be checked.")
    size = size_of(first[1])
    made = checkpoint.description
    details = made.model_dump(mode="json", include={"plan", "plan_digest", "rounds"}) if made else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    try:
        write_onnx(model, objective, size, partial, details)
        check = ExportCheck(model, objective, OnnxDetector(partial), size)
        for domain, frame in track(chain([first], frames), "checking", count, console=console):
            check.add(domain, frame)
        if check.other_sizes:
            console.print(f"{check.other_sizes} frames are not {size[0]}x{size[1]} and were not used.")
        parity = check.parity
        if not parity.holds:
            raise FedAGemError(
                f"the exported model differs from {model_path}: boxes by up to {parity.box:.2f} pixels (at most "
                f"{BOX_TOLERANCE:g}), scores by up to {parity.score:.1e} (at most {SCORE_TOLERANCE:g}), and "
                f"{parity.unmatched} objects were found by one of them alone; nothing was written."
            )
        latency = check.latency()
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    card = ModelCard(
        file=out.name,
        source=str(model_path),
        classes=model.classes,
        frame_size=size,
        input_size=model.input_size,
        confidence=objective.thresholds.confidence,
        overlap=objective.thresholds.overlap,
        parameters=sum(weights.numel() for weights in model.parameters()),
        description=made,
        plan=plan,
        scores=check.exported.scores(),
        original=check.original.scores(),
        min_size=objective.min_size,
        parity=parity,
        latency=latency,
    )
    write_file(out.with_suffix(".md"), card.to_markdown())
    write_file(out.with_suffix(".json"), json.dumps(card.to_json(), indent=1) + "\n")
    _summarise(card, console)
    console.print(f"wrote {out}, {out.with_suffix('.md')} and {out.with_suffix('.json')}", soft_wrap=True)


def _summarise(card: ModelCard, console: Console) -> None:
    parity, latency = card.parity, card.latency
    lines = [
        f"{parity.frames} frames, {parity.objects} objects: boxes differ by at most {parity.box:.3f} pixels, "
        f"scores by at most {parity.score:.1e}."
    ]
    for name, part in card.scores.items():
        shown = ("-" if value is None else f"{value:.3f}" for value in (part.map_50, card.original[name].map_50))
        lines.append("{}: mAP@0.5 {}, PyTorch {}".format(name, *shown))
    lines.append(f"{latency.median:.1f} ms per frame (median) with {latency.threads} of {latency.processor}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _plan_of(model_path: Path) -> Plan | None:
    """The plan of the run that a model file lies in."""
    from fedagem.runs.folder import is_run, plan_of_run

    run = model_path.resolve().parent.parent
    return plan_of_run(run) if is_run(run) else None


def _frames(
    classes: tuple[str, ...], snippets: tuple[Path, ...], aliases: dict[str, str], plan: Plan | None, model_path: Path
) -> tuple[int, Iterator[tuple[str, LabelledFrame]]]:
    """How many frames there are to check on, and each with its domain."""
    from fedagem.detection.drives import SnippetFrames
    from fedagem.plans.driving import DrivingSettings
    from fedagem.runs.evaluation_frames import evaluation_sources

    if snippets:
        drives = [SnippetFrames(directory, classes, aliases) for directory in snippets]
        return sum(map(len, drives)), ((drive.directory.name, frame) for drive in drives for frame in drive)
    if aliases:
        raise FedAGemError("--alias is for drives that --snippets names: the plan of the run has its own.")
    data = plan.data if plan is not None else None
    if not isinstance(data, DrivingSettings) or not data.evaluation.paths:
        raise FedAGemError(f"there is no run around {model_path} with drives to check on: name some with --snippets.")
    sources = evaluation_sources(data)
    return sum(len(source) for _, source in sources), (
        (domain, frame) for domain, source in sources for frame in source.frames()
    )
