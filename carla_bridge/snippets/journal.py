"""A snippet's journal: one JSON line per frame while recording, so that a crash leaves a readable prefix.

The first line holds `info` and `categories`; every further line holds one image with its annotations. Closing
the writer turns the journal into `annotations.json`; the reader takes the journal if the JSON is missing or older.
"""

import json
from pathlib import Path
from typing import Any

from carla_bridge.errors import SnippetError
from carla_bridge.snippets.layout import ANNOTATIONS, JOURNAL


def find_snippets(*places: Path | str) -> list[Path]:
    """The snippet directories at or below the given places, each place's in order of their names."""
    found: list[Path] = []
    for place in map(Path, places):
        if not place.is_dir():
            raise SnippetError(f"{place} is not a directory")
        files = [file for name in (ANNOTATIONS, JOURNAL) for file in place.rglob(name)]
        below = sorted({file.parent for file in files})
        if not below:
            raise SnippetError(f"there is no snippet at or below {place}")
        found += below
    return found


def read_document(directory: Path) -> dict[str, Any]:
    """The COCO document of a snippet, from its JSON or from the whole lines of its journal."""
    if not directory.is_dir():
        raise SnippetError(f"{directory} is not a directory")
    finished, journal = directory / ANNOTATIONS, directory / JOURNAL
    if not finished.is_file() and not journal.is_file():
        raise SnippetError(f"{directory} holds no {ANNOTATIONS}, so it is not a snippet")
    if not finished.is_file() or (journal.is_file() and journal.stat().st_mtime_ns > finished.stat().st_mtime_ns):
        return read_journal(journal)
    try:
        document = json.loads(finished.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SnippetError(f"{finished} is broken JSON ({error})") from error
    if not isinstance(document, dict):
        raise SnippetError(f"{finished} holds a {type(document).__name__}, not a COCO object")
    return document


def read_journal(journal: Path) -> dict[str, Any]:
    """The document of all whole lines; a last line cut short by a crash does not count."""
    whole, _, _ = journal.read_bytes().rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if not lines:
        raise SnippetError(f"{journal} ends before its first line is complete, so no frame was recorded")
    header = _line(journal, 1, lines[0])
    document: dict[str, Any] = {
        "info": header.get("info", {}),
        "images": [],
        "categories": header.get("categories"),
        "annotations": [],
    }
    for number, line in enumerate(lines[1:], start=2):
        entry = _line(journal, number, line)
        annotations = entry.get("annotations")
        if not isinstance(annotations, list):
            raise SnippetError(f"{journal}: line {number} holds no list of annotations")
        document["images"].append(entry.get("image"))
        document["annotations"].extend(annotations)
    return document


def _line(journal: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SnippetError(f"{journal}: line {number} is broken JSON ({error})") from error
    if not isinstance(entry, dict):
        raise SnippetError(f"{journal}: line {number} is not an object")
    return entry
