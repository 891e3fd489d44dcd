"""Trains TinyYOLO on recorded snippets with plain SGD, and scores it on frames kept out and on other towns.

This is the detector without any federation: what it cannot learn here, no federation will teach it. Of every
five blocks of ten consecutive frames one is kept out, so that neighbours of training frames are not tested on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

import click
import torch
from rich.console import Console

from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetSource
from fedagem.detection.anchors import cluster_anchors
from fedagem.detection.detector_file import save_detector
from fedagem.detection.inference import score, scoring_batches
from fedagem.detection.objective import DetectionObjective
from fedagem.detection.samples import make_batch
from fedagem.seeding import derive_generator, seeded_torch
from models.darknet_weights import load_darknet_weights
from models.tiny_yolo import TinyYolo, TinyYoloConfig

BLOCK, KEPT_OUT = 10, 5


def is_kept_out(index: int) -> bool:
    return (index // BLOCK) % KEPT_OUT == KEPT_OUT - 1


def learning_rate(step: int, steps: int, peak: float) -> float:
    """A warm-up over the first twentieth, then half a cosine down to a hundredth."""
    warm = max(1, steps // 20)
    if step < warm:
        return peak * (step + 1) / warm
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm))))


@click.command()
@click.option("--train", "train_on", type=click.Path(path_type=Path, exists=True), multiple=True, required=True)
@click.option("--test", "test_on", type=click.Path(path_type=Path, exists=True), multiple=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--width", default=0.5)
@click.option("--size", type=(int, int), default=(416, 256))
@click.option("--anchors", "anchor_count", default=5)
@click.option("--epochs", default=60)
@click.option("--batch", "batch_size", default=16)
@click.option("--rate", default=0.003)
@click.option("--decay", default=5e-4)
@click.option("--threads", default=1)
@click.option("--seed", default=0)
@click.option("--start", type=click.Path(path_type=Path, exists=True), help="Darknet weights to start from.")
@click.option("--min-size", default=0.0, help="Score only objects with both sides at least this long.")
def train(
    train_on: Sequence[Path],
    test_on: Sequence[Path],
    out: Path,
    width: float,
    size: tuple[int, int],
    anchor_count: int,
    epochs: int,
    batch_size: int,
    rate: float,
    decay: float,
    threads: int,
    seed: int,
    start: Path | None,
    min_size: float,
) -> None:
    """Train, score, and write `detector.pt` and `scores.json` into OUT."""
    torch.set_num_threads(threads)
    console = Console()
    sources = {path.name: SnippetSource([path]) for path in (*train_on, *test_on)}
    classes = sources[train_on[0].name].classes
    frames = {name: list(SnippetSource([path], classes=classes).frames()) for name, path in _named(train_on, test_on)}
    learned = [f for path in train_on for i, f in enumerate(frames[path.name]) if not is_kept_out(i)]
    kept_out = {path.name: [f for i, f in enumerate(frames[path.name]) if is_kept_out(i)] for path in train_on}
    samples = make_batch(learned, size, max_boxes=64)

    boxes = samples["boxes"][samples["boxes"][..., 0] >= 0]
    anchors = cluster_anchors(boxes[:, 3:] * torch.tensor(size), anchor_count, seed=seed)
    console.print(
        f"{len(learned)} frames, {len(boxes)} boxes, anchors {anchors.sizes} (mean IoU {anchors.mean_iou:.3f})"
    )
    config = TinyYoloConfig(classes=classes, anchors=anchors.sizes, input_size=size, width=width)
    with seeded_torch(seed, "model"):
        model = TinyYolo.of(config)
    if start is not None:
        load_darknet_weights(model, start, with_head=False)
    objective = DetectionObjective(anchors=config.anchors, augmentation={})
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=decay)
    generator = derive_generator(seed, "batches")
    steps_per_epoch = len(learned) // batch_size
    steps = epochs * steps_per_epoch
    began = time.perf_counter()
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(learned), generator=generator)
        sums: dict[str, float] = {}
        for number in range(steps_per_epoch):
            chosen = order[number * batch_size : (number + 1) * batch_size]
            view = objective.augment({name: values[chosen] for name, values in samples.items()}, generator)
            terms = objective.losses(objective.logits(model, view), view)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(epoch * steps_per_epoch + number, steps, rate)
            optimizer.zero_grad()
            torch.stack(list(terms.values())).sum().backward()
            optimizer.step()
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + float(term.detach()) / steps_per_epoch
        line = " ".join(f"{name} {value:.3f}" for name, value in sums.items())
        console.print(f"epoch {epoch + 1}/{epochs} {line} ({time.perf_counter() - began:.0f} s)")
        if (epoch + 1) % 10 == 0:
            save_detector(model, out / "detector.pt")
            _report(console, model, {"kept out": [f for part in kept_out.values() for f in part]}, min_size)
    save_detector(model, out / "detector.pt")
    groups = {f"{name} kept out": part for name, part in kept_out.items()}
    groups["all kept out"] = [frame for part in kept_out.values() for frame in part]
    groups |= {path.name: frames[path.name] for path in test_on}
    groups["trained on"] = learned
    rows = {str(least): _report(console, model, groups, least) for least in sorted({0.0, 16.0, min_size})}
    settings = {"width": width, "size": size, "epochs": epochs, "batch": batch_size, "rate": rate, "seed": seed}
    document = {"settings": settings, "seconds": time.perf_counter() - began, "min_size": rows}
    (out / "scores.json").write_text(json.dumps(document, indent=2))


def _named(*groups: Sequence[Path]) -> list[tuple[str, Path]]:
    return [(path.name, path) for group in groups for path in group]


def _report(console: Console, model: TinyYolo, groups: dict[str, list[Frame]], min_size: float) -> dict[str, object]:
    objective = DetectionObjective(anchors=model.config.anchors, min_size=min_size)
    rows: dict[str, object] = {}
    for name, frames in groups.items():
        scores = score(model, objective, scoring_batches(frames, model.config.input_size)).overall
        rows[name] = scores.to_json()
        classes = ", ".join(
            f"{label} {score.map_50:.3f} ({score.objects})"
            for label, score in scores.per_class.items()
            if score.map_50 is not None
        )
        console.print(f"  {name} (>= {min_size:g} px): mAP@0.5 {scores.map_50:.3f}, mAP {scores.map:.3f}; {classes}")
    return rows


if __name__ == "__main__":
    train()
