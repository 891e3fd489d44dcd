"""The COCO layout of a snippet, parsed into typed records and checked against its frames.

A snippet is a directory with images and an `annotations.json`: `info`, `images` (each with `frame` and, if
the bridge recorded it, `timestamp`), `categories`, `annotations`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box

ANNOTATIONS = "annotations.json"
JOURNAL = "annotations.jsonl"

_LARGEST = 1e300

OnError = Literal["refuse", "skip"]
Row = dict[str, Any]
Key = int | str | None
Aliases = Mapping[str, str | None]
"""What a class is called instead; None for a class whose boxes are left out."""

_NO_ATTRIBUTES = {
    *("id", "file_name", "width", "height", "frame", "timestamp"),
    *("license", "coco_url", "flickr_url", "attributes"),
}

logger = logging.getLogger(__name__)


class Faults:
    """Decides what a fault in a snippet leads to: an exception, or a warning and a smaller snippet."""

    def __init__(self, on_error: OnError = "refuse") -> None:
        if on_error not in ("refuse", "skip"):
            raise ValueError(f"on_error is {on_error!r}; valid values: 'refuse', 'skip'")
        self.on_error = on_error
        self.skipped: list[str] = []

    def report(self, fault: SnippetError) -> None:
        """Raise the fault, or record it and return if faults are to be skipped."""
        if self.on_error == "refuse":
            raise fault
        self.skipped.append(str(fault))
        logger.warning("skipped: %s", fault)


@dataclass(frozen=True)
class ImageRecord:
    """One image of a snippet and its boxes; the image file itself is read when it is needed."""

    path: Path
    width: int
    height: int
    frame: int
    timestamp: float | None
    """Simulation seconds; None in snippets that were recorded without time stamps."""
    annotations: Annotations
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What else is known of it, such as its weather; a plan's rules choose images by it."""


@dataclass(frozen=True)
class SnippetIndex:
    """Everything a snippet contains except the pixels of its images."""

    directory: Path
    vehicle: str
    domain: str
    images: tuple[ImageRecord, ...]


def category_names(directory: Path, document: Row) -> dict[Key, str]:
    """The classes of the snippet by category id."""
    names: dict[Key, str] = {}
    for row in table_rows(directory, document, "categories"):
        number, name = key_of(row.get("id")), row.get("name")
        if number is None or number in names or not isinstance(name, str) or name in names.values():
            raise SnippetError(f"{directory}: category {row!r} has no id or name, or one that another category has too")
        names[number] = name
    return names


def parse_index(
    directory: Path, document: Row, classes: Sequence[str], aliases: Aliases, faults: Faults
) -> SnippetIndex:
    """Check a whole COCO document; `classes` maps its categories by name, or by its alias, onto the caller's labels."""
    parser = _Parser(directory, category_names(directory, document), classes, aliases, faults)
    boxes: dict[Key, list[Row]] = {}
    for row in table_rows(directory, document, "annotations"):
        boxes.setdefault(key_of(row.get("image_id")), []).append(row)
    images: dict[Key, ImageRecord] = {}
    for row in table_rows(directory, document, "images"):
        number = key_of(row.get("id"))
        mine = boxes.pop(number, [])
        try:
            if number is None or number in images:
                raise SnippetError(f"{directory}: image id {row.get('id')!r} is missing or used twice")
            images[number] = parser.image(row, mine)
        except SnippetError as fault:
            faults.report(fault)
    for number in boxes:
        faults.report(SnippetError(f"{directory}: boxes belong to image id {number!r}, which does not exist"))
    info = document.get("info")
    info = info if isinstance(info, dict) else {}
    return SnippetIndex(
        directory=directory,
        vehicle=str(info.get("vehicle") or directory.name),
        domain=str(info.get("domain") or directory.name),
        images=tuple(sorted(images.values(), key=_place)),
    )


class _Parser:
    """Turns rows of one document into records; it holds what every error message names."""

    def __init__(
        self, directory: Path, categories: dict[Key, str], classes: Sequence[str], aliases: Aliases, faults: Faults
    ) -> None:
        self._directory = directory
        self._root = directory.resolve()
        self._categories = {number: aliases.get(name, name) for number, name in categories.items()}
        self._labels = {name: label for label, name in enumerate(classes)}
        self._faults = faults

    def image(self, row: Row, boxes: list[Row]) -> ImageRecord:
        path = self._path(row.get("file_name"))
        width, height, frame = (_whole(path, row, key) for key in ("width", "height", "frame"))
        if width < 1 or height < 1:
            raise SnippetError(f"{path}: an image of {width} x {height} pixels has no content")
        timestamp = row.get("timestamp")
        if timestamp is not None and not _finite(timestamp):
            raise SnippetError(f"{path}: timestamp {timestamp!r} is not a number of seconds")
        kept: list[Box] = []
        for box in boxes:
            try:
                parsed = self._box(path, box, width, height)
            except SnippetError as fault:
                self._faults.report(fault)
                continue
            if parsed is not None:
                kept.append(parsed)
        seconds = None if timestamp is None else float(timestamp)
        return ImageRecord(path, width, height, frame, seconds, Annotations.of(kept), attributes_of(row))

    def _path(self, file_name: Any) -> Path:
        if not isinstance(file_name, str) or not file_name or "\0" in file_name:
            raise SnippetError(f"{self._directory}: file_name {file_name!r} is not a file's name")
        relative = PurePosixPath(file_name)
        path = self._directory / relative
        inside = not relative.is_absolute() and ".." not in relative.parts
        try:
            if not inside or not path.resolve().is_relative_to(self._root):
                raise SnippetError(f"{self._directory}: file_name {file_name!r} leads out of the snippet's directory")
            found = path.is_file()
        except (OSError, UnicodeError, RuntimeError) as error:  # too long, no text, a loop of links
            raise SnippetError(f"{self._directory}: file_name {file_name!r} is not a file's name") from error
        if not found:
            raise SnippetError(f"{path}: the image is missing")
        return path

    def _box(self, path: Path, row: Row, width: int, height: int) -> Box | None:
        """None for a class that the caller does not want."""
        category = key_of(row.get("category_id"))
        if category is None or category not in self._categories:
            raise SnippetError(f"{path}: a box has the unknown category {row.get('category_id')!r}")
        name = self._categories[category]
        if name is None:
            return None
        if name not in self._labels:
            raise SnippetError(f"{path}: a box is a {name!r}, which is not among the requested classes")
        bbox = row.get("bbox")
        if not isinstance(bbox, list) or len(bbox) != 4 or not all(_finite(value) for value in bbox):
            raise SnippetError(f"{path}: a box is {bbox!r}, not [x, y, width, height]")
        x, y, w, h = (float(value) for value in bbox)
        if w <= 0 or h <= 0 or x < 0 or y < 0 or x + w > width or y + h > height:
            raise SnippetError(f"{path}: the box {bbox!r} is empty or outside the {width} x {height} frame")
        return Box(
            label=self._labels[name],
            x=x,
            y=y,
            width=w,
            height=h,
            truncated=bool(row.get("truncated", False)),
            pixels=_count(row.get("pixels")),
            object_id=_count(row.get("object_id")),
        )


def _place(image: ImageRecord) -> tuple[float, int]:
    return (image.frame if image.timestamp is None else image.timestamp, image.frame)


def table_rows(directory: Path, document: Row, key: str) -> list[Row]:
    """The rows of one of the lists of a COCO document."""
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SnippetError(f"{directory}: {key!r} of the annotations is not a list of objects")
    return rows


def attributes_of(row: Row) -> dict[str, str]:
    """What an image's row says of it besides its place and size: further values of its own, and its `attributes`."""
    nested = row.get("attributes")
    plain = {key: value for key, value in row.items() if key not in _NO_ATTRIBUTES}
    both: Row = {**plain, **(nested if isinstance(nested, dict) else {})}
    return {str(key): str(value) for key, value in both.items() if isinstance(value, str | int | float)}


def key_of(value: Any) -> Key:
    """An id as it may be looked up; None for what no id can be."""
    return value if isinstance(value, int | str) else None


def _whole(path: Path, row: Row, key: str) -> int:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SnippetError(f"{path}: its {key} is {value!r}, not a whole number")
    return value


def _finite(value: Any) -> bool:
    """Whether it is a finite number that can be reckoned with; the whole numbers of JSON have no limit."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < 2**63 else 0
