"""What every format is read into: images with boxes in pixels, and attributes that domains are chosen by."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")

_ORIENTATION, _FIRST_TURNED = 0x0112, 5
_GRID = 1024
"""Boxes lie on a grid of 1/1024 pixel: sums of edges are then exact, and a box at the border stays inside."""


@dataclass(frozen=True)
class LabelledImage:
    """One image of somebody's data set; its file is opened no further than its header."""

    path: Path
    width: int
    height: int
    annotations: Annotations
    attributes: Mapping[str, str]


@dataclass
class Dataset:
    """The images of one split in order of their names, read while they are iterated over."""

    classes: tuple[str, ...]
    split: str
    count: int
    images: Iterator[LabelledImage]
    left_out: Counter[str] = field(default_factory=Counter)
    """What the format marks as no object to learn, by its kind; complete once all images were read."""


def choose_split(place: Path, splits: Mapping[str, Path], wanted: str | None) -> str:
    """The split that was asked for, or the only one."""
    if wanted is None and len(splits) > 1:
        raise SnippetError(f"{place} has the splits {', '.join(splits)}: choose one with --split")
    if wanted is not None and wanted not in splits:
        raise SnippetError(f"{place} has no split {wanted!r}; valid values: {', '.join(splits)}")
    return wanted or next(iter(splits))


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of an image as it will be decoded, that is turned upright, without decoding it."""
    try:
        with Image.open(path) as picture:
            turned = picture.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
            width, height = picture.size
    except FileNotFoundError as error:
        raise SnippetError(f"{path}: the image is missing") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SnippetError(f"{path}: the image is truncated or not an image") from error
    return (height, width) if turned else (width, height)


def box_inside(
    where: str, label: int, corners: Sequence[float], size: tuple[int, int], truncated: bool | None = None
) -> Box:
    """The part of a box (left, top, right, bottom) that lies in the image; refuses a box of which nothing does.

    If the format does not say whether an object is truncated, it is if its box reaches the border.
    """
    width, height = size
    left, right = (_on_grid(min(max(x, 0.0), width)) for x in (corners[0], corners[2]))
    top, bottom = (_on_grid(min(max(y, 0.0), height)) for y in (corners[1], corners[3]))
    if right <= left or bottom <= top:
        given = ", ".join(f"{value:g}" for value in corners)
        raise SnippetError(f"{where}: the box ({given}) is empty or outside the {width} x {height} image")
    if truncated is None:
        truncated = left == 0 or top == 0 or right == width or bottom == height
    return Box(label, left, top, right - left, bottom - top, truncated)


def _on_grid(value: float) -> float:
    return round(value * _GRID) / _GRID
