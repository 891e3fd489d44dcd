"""The format of YOLO: a `data.yaml`, and beside every image a text file with boxes as shares of the image.

`data.yaml` has the `names` of the classes and for each split a folder, a text file with a list of images, or a list of
these, relative to its `path`. The labels of `images/a/1.jpg` are in `labels/a/1.txt`, one object to a line: class,
centre x and y, width and height, or class and the corners of a polygon. An image without that file has no objects.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from carla_bridge.datasets.dataset import PICTURES, Dataset, LabelledImage, box_inside, choose_split, picture_size
from carla_bridge.datasets.documents import numbers, read_text, rows_of
from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box
from carla_bridge.snippets.layout import Faults

SPLITS = ("train", "val", "test")

_BOX, _SMALLEST_POLYGON = 4, 6
_ROUNDING = 1e-3
"""How far beyond the image a share may lie: files are often written with few digits."""


def read(place: Path, split: str | None, faults: Faults) -> Dataset:
    """`place` is the folder of `data.yaml`, or such a file itself."""
    file = _data_file(place)
    settings = _settings(file)
    classes = _names(file, settings.get("names"))
    chosen = choose_split(file, {name: file for name in SPLITS if settings.get(name)}, split)
    root = str(settings.get("path") or "")
    found = list(_pictures(file.parent, root, settings[chosen]))
    if not found:
        raise SnippetError(f"{file}: there are no images in {settings[chosen]!r}, the split {chosen!r}")

    def images() -> Iterator[LabelledImage]:
        for path, folder in found:
            try:
                yield _labelled(path, folder, chosen, len(classes), faults)
            except SnippetError as fault:
                faults.report(fault)

    return Dataset(classes, chosen, len(found), images())


def _data_file(place: Path) -> Path:
    if place.suffix in (".yaml", ".yml"):
        return place
    found = [place / "data.yaml"] if (place / "data.yaml").is_file() else sorted(place.glob("*.y*ml"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise SnippetError(f"{place} must have a data.yaml or exactly one other YAML file, and has {names}")
    return found[0]


def _settings(file: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(read_text(file))
    except SnippetError:
        raise
    except Exception as error:  # PyYAML has errors of its own, but the date 2021-99-99 ends in Python's, for one
        raise SnippetError(f"{file} is not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(settings, dict) or not any(settings.get(name) for name in SPLITS):
        raise SnippetError(f"{file} names no images: it must have train, val or test")
    return settings


def _names(file: Path, names: Any) -> tuple[str, ...]:
    """A list of names, or a mapping of numbers from 0 on to names."""
    if isinstance(names, dict):
        names = [names.get(number) for number in range(len(names))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str | int) for name in names):
        raise SnippetError(f"{file}: names must list the classes, or name them by the numbers 0, 1, 2 ...")
    texts = tuple(str(name) for name in names)
    if len(set(texts)) != len(texts):
        raise SnippetError(f"{file}: names has the same class twice: {', '.join(texts)}")
    return texts


def _pictures(home: Path, root: str, entry: Any) -> Iterator[tuple[Path, str]]:
    """Every image of a split, with its folder below the split's."""
    for part in entry if isinstance(entry, list) else [entry]:
        place = _existing(home, root, str(part))
        if place.is_dir():
            files = sorted(file for file in place.rglob("*") if file.suffix.lower() in PICTURES)
            yield from ((file, file.parent.relative_to(place).as_posix()) for file in files)
        else:
            lines = [line.strip() for line in read_text(place).splitlines() if line.strip()]
            yield from ((_existing(place.parent, root, line), Path(line).parent.name) for line in lines)


def _existing(home: Path, root: str, entry: str) -> Path:
    """Relative to `path`, or to the file itself if that folder is elsewhere; exporters also write `../` too much."""
    places = [home / root / entry, home / entry, home / entry.removeprefix("../")]
    for place in places:
        if place.exists():
            return place
    raise SnippetError(f"{places[0]} does not exist")


def _labelled(path: Path, folder: str, split: str, classes: int, faults: Faults) -> LabelledImage:
    size = picture_size(path)
    labels = _label_file(path)
    boxes: list[Box] = []
    for where, words in rows_of(labels, read_text(labels) if labels.is_file() else ""):
        try:
            boxes.append(_box(where, words, classes, size))
        except SnippetError as fault:
            faults.report(fault)
    return LabelledImage(path, *size, Annotations.of(boxes), {"split": split, "folder": folder})


def _label_file(path: Path) -> Path:
    parts = list(path.parts)
    for number in reversed(range(len(parts) - 1)):
        if parts[number] == "images":
            parts[number] = "labels"
            break
    return Path(*parts).with_suffix(".txt")


def _box(where: str, words: list[str], classes: int, size: tuple[int, int]) -> Box:
    label, *shares = numbers(where, words)
    if len(shares) != _BOX and (len(shares) < _SMALLEST_POLYGON or len(shares) % 2):
        raise SnippetError(f"{where}: {len(words)} values are neither class, centre and size nor class and a polygon")
    if label != int(label) or not 0 <= label < classes:
        raise SnippetError(f"{where}: class {words[0]} is not a number from 0 to {classes - 1}")
    for share in shares:
        if not -_ROUNDING <= share <= 1 + _ROUNDING:
            raise SnippetError(f"{where}: {share:g} is not between 0 and 1: boxes must be shares of the image")
    width, height = size
    if len(shares) == _BOX:
        x, y, w, h = shares
        corners = [x - w / 2, y - h / 2, x + w / 2, y + h / 2]
    else:
        xs, ys = shares[0::2], shares[1::2]
        corners = [min(xs), min(ys), max(xs), max(ys)]
    return box_inside(where, int(label), [corner * (width, height)[i % 2] for i, corner in enumerate(corners)], size)
