"""Reads the JSON and text files of data sets; whatever is wrong with one ends in a sentence that names it."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from carla_bridge.errors import SnippetError


def read_text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError as error:
        raise SnippetError(f"{path} does not exist") from error
    except UnicodeDecodeError as error:
        raise SnippetError(f"{path} is not a text file") from error


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SnippetError(f"{path} is broken JSON ({error})") from error


def rows_of(path: Path, lines: str) -> Iterator[tuple[str, list[str]]]:
    """The words of every line that has some, with the place of the line for errors."""
    for number, line in enumerate(lines.splitlines(), start=1):
        if words := line.split():
            yield f"{path}, line {number}", words


def numbers(where: str, words: Sequence[Any]) -> list[float]:
    """Finite numbers, from text or from JSON."""
    found = []
    for word in words:
        try:
            value = float(word)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if isinstance(word, bool) or not math.isfinite(value):
            raise SnippetError(f"{where}: {word!r} is not a finite number")
        found.append(value)
    return found


def image_folder(candidates: Sequence[Path], name: str, source: Path) -> Path:
    """The first of these folders that has an image of this name."""
    for folder in candidates:
        if (folder / name).is_file():
            return folder
    raise SnippetError(
        f"the image {name} of {source} is in none of {', '.join(map(str, dict.fromkeys(candidates)))}: "
        "name the folder of the images with --images"
    )
