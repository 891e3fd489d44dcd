"""Summarises a set of snippets: boxes per class and domain, their sizes, empty frames."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carla_bridge.snippets import SnippetSource

SMALL, MEDIUM = 32**2, 96**2
"""COCO's limits of small and medium boxes, in square pixels."""


@dataclass(frozen=True)
class ClassStatistics:
    """Boxes of one class."""

    boxes: int
    per_frame: float
    median_width: float
    median_height: float
    small: float
    medium: float
    large: float
    truncated: float
    """Shares of the class's boxes."""


@dataclass(frozen=True)
class DomainStatistics:
    """All frames of one domain."""

    frames: int
    empty_frames: int
    classes: dict[str, ClassStatistics]


@dataclass
class _Collected:
    frames: int = 0
    empty: int = 0
    labels: list[NDArray[np.int64]] = field(default_factory=list)
    boxes: list[NDArray[np.float32]] = field(default_factory=list)
    truncated: list[NDArray[np.bool_]] = field(default_factory=list)


def summarise(source: SnippetSource) -> dict[str, DomainStatistics]:
    """Statistics by domain, 'all' last; no image is decoded."""
    collected: dict[str, _Collected] = {}
    for snippet in source.snippets:
        for image in snippet.images:
            notes = image.annotations
            for name in (snippet.domain, "all"):
                part = collected.setdefault(name, _Collected())
                part.frames += 1
                part.empty += not len(notes)
                part.labels.append(notes.labels)
                part.boxes.append(notes.boxes)
                part.truncated.append(notes.truncated)
    names = [name for name in sorted(collected) if name != "all"] + ["all"]
    return {name: _summary(collected[name], source.classes) for name in names}


def _summary(part: _Collected, classes: Sequence[str]) -> DomainStatistics:
    labels, boxes = np.concatenate(part.labels), np.concatenate(part.boxes)
    truncated = np.concatenate(part.truncated)
    by_class = {}
    for label, name in enumerate(classes):
        mine = labels == label
        width, height = boxes[mine, 2], boxes[mine, 3]
        area, count = width * height, int(mine.sum())
        by_class[name] = ClassStatistics(
            boxes=count,
            per_frame=round(count / part.frames, 3),
            median_width=float(np.median(width)) if count else 0.0,
            median_height=float(np.median(height)) if count else 0.0,
            small=_share(area < SMALL),
            medium=_share((area >= SMALL) & (area < MEDIUM)),
            large=_share(area >= MEDIUM),
            truncated=_share(truncated[mine]),
        )
    return DomainStatistics(part.frames, part.empty, by_class)


def _share(values: NDArray[np.bool_]) -> float:
    return round(float(values.mean()), 3) if len(values) else 0.0


def plot(source: SnippetSource, domains: dict[str, DomainStatistics], path: Path) -> None:
    """Plot boxes per frame by class and domain, and the sizes of all boxes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (bars, sizes) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    names = [name for name in domains if name != "all"]
    places = np.arange(len(source.classes))
    for number, name in enumerate(names):
        heights = [domains[name].classes[label].per_frame for label in source.classes]
        shift = (number - (len(names) - 1) / 2) * 0.8 / len(names)
        bars.bar(places + shift, heights, 0.8 / len(names), label=f"{name} ({domains[name].frames} frames)")
    bars.set_xticks(places, source.classes, rotation=20)
    bars.set_ylabel("boxes per frame")
    bars.legend()
    for label, name in enumerate(source.classes):
        sides = _sides(source, label)
        if len(sides):
            sizes.hist(sides, bins=np.geomspace(2, 512, 33), histtype="step", label=name)
    sizes.set_xscale("log")
    sizes.set_xlabel("square root of the box's area, pixels")
    sizes.set_ylabel("boxes")
    sizes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _sides(source: SnippetSource, label: int) -> NDArray[np.float64]:
    notes: Iterable[NDArray[np.float32]] = (
        image.annotations.boxes[image.annotations.labels == label]
        for snippet in source.snippets
        for image in snippet.images
    )
    boxes = np.concatenate([*notes, np.zeros((0, 4), np.float32)])
    sides: NDArray[np.float64] = np.sqrt(boxes[:, 2].astype(np.float64) * boxes[:, 3])
    return sides
