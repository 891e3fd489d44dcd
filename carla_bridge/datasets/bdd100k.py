"""BDD100K's detection labels: one JSON file per split, a list of frames with attributes and labels.

A frame has a `name`, `attributes` (weather, scene and timeofday) and `labels`, each with a category and, if it is an
object, a `box2d` of x1, y1, x2 and y2 in pixels. Lanes and drivable areas are in the same list and have no box.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from carla_bridge.datasets.dataset import Dataset, LabelledImage, box_inside, choose_split, picture_size
from carla_bridge.datasets.documents import image_folder, numbers, read_json
from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box
from carla_bridge.snippets.layout import Faults

DOMAIN_BY = ("scene", "timeofday")
"""The attributes that make a domain if nothing else is asked for."""

_PATTERNS = ("labels/det_20/det_*.json", "labels/bdd100k_labels_images_*.json", "det_*.json", "*_labels_images_*.json")
_EDGES = ("x1", "y1", "x2", "y2")


def read(place: Path, split: str | None, faults: Faults, pictures: Path | None = None) -> Dataset:
    """`place` is the folder with `labels/` and `images/100k/`, or one of the label files."""
    splits = _label_files(place)
    chosen = choose_split(place, splits, split)
    file = splits[chosen]
    document = read_json(file)
    frames = document.get("frames") if isinstance(document, dict) else document
    if not isinstance(frames, list) or not frames or not all(_is_frame(frame) for frame in frames):
        raise SnippetError(f"{file} must be a list of frames with names, as BDD100K's detection labels are")
    frames.sort(key=lambda frame: str(frame["name"]))
    homes = [file.parent, *file.parent.parents[:2]]
    guesses = [home / part for home in homes for part in (f"images/100k/{chosen}", f"100k/{chosen}", chosen, ".")]
    folder = pictures or image_folder(guesses, frames[0]["name"], file)
    classes = tuple(sorted({str(label.get("category")) for frame in frames for label in _objects(frame)}))
    left_out: Counter[str] = Counter()

    def images() -> Iterator[LabelledImage]:
        for frame in frames:
            try:
                yield _labelled(folder / frame["name"], frame, chosen, classes, left_out, faults)
            except SnippetError as fault:
                faults.report(fault)

    return Dataset(classes, chosen, len(frames), images(), left_out)


def _label_files(place: Path) -> dict[str, Path]:
    found = [place] if place.is_file() else [file for pattern in _PATTERNS for file in sorted(place.glob(pattern))]
    if not found:
        raise SnippetError(f"{place} has no labels/det_20/det_train.json or the like: name the label file itself")
    splits: dict[str, Path] = {}
    for file in found:
        split = file.stem.rpartition("_")[2]
        if split in splits:
            raise SnippetError(f"{splits[split]} and {file} both label {split}: name one of them in place of {place}")
        splits[split] = file
    return splits


def _is_frame(frame: Any) -> bool:
    return (
        isinstance(frame, dict)
        and isinstance(frame.get("name"), str)
        and isinstance(frame.get("labels") or [], list)
        and all(isinstance(label, dict) for label in frame.get("labels") or [])
    )


def _objects(frame: dict[str, Any]) -> list[dict[str, Any]]:
    return [label for label in frame.get("labels") or [] if label.get("box2d") is not None]


def _labelled(
    path: Path, frame: dict[str, Any], split: str, classes: tuple[str, ...], left_out: Counter[str], faults: Faults
) -> LabelledImage:
    size = picture_size(path)
    objects = _objects(frame)
    if without := len(frame.get("labels") or []) - len(objects):
        left_out["labels without a box"] += without
    boxes: list[Box] = []
    for label in objects:
        try:
            boxes.append(_box(f"{path.name}, label {label.get('id')}", label, classes, size))
        except SnippetError as fault:
            faults.report(fault)
    given = frame.get("attributes")
    attributes = {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    return LabelledImage(path, *size, Annotations.of(boxes), {"split": split, **attributes})


def _box(where: str, label: dict[str, Any], classes: tuple[str, ...], size: tuple[int, int]) -> Box:
    edges = label["box2d"]
    if not isinstance(edges, dict) or not all(edge in edges for edge in _EDGES):
        raise SnippetError(f"{where}: box2d is {edges!r}; it must have x1, y1, x2 and y2")
    attributes = label.get("attributes")
    truncated = attributes.get("truncated") if isinstance(attributes, dict) else None
    corners = numbers(where, [edges[edge] for edge in _EDGES])
    known = truncated if isinstance(truncated, bool) else None
    return box_inside(where, classes.index(str(label.get("category"))), corners, size, known)
