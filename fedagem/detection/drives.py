"""Recorded drives: found on this machine, and opened as frames that a model can be scored on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carla_bridge.snippets import SnippetError, SnippetSource, find_snippets
from fedagem.detection.footage import NamedFrame
from fedagem.errors import DataError
from fedagem.tasks.data_folder import resolve_root


def find_drives(path: str) -> list[Path]:
    """The snippets at or below a plan's path: an absolute one, or one within the data folder."""
    try:
        return find_snippets(resolve_root(path))
    except SnippetError as problem:
        raise DataError(f"{problem}: {_remedy(path)}.") from problem


class SnippetFrames:
    """The frames of one snippet, labelled for a model: boxes of classes that it does not know are left out.

    `aliases` says which class of the model a class of the snippet is.
    """

    def __init__(
        self, directory: Path, classes: Sequence[str] | None = None, aliases: Mapping[str, str] | None = None
    ) -> None:
        try:
            self._source = SnippetSource([directory], aliases=aliases or {})
        except SnippetError as error:
            raise DataError(str(error)) from error
        self.directory = directory
        self.classes = tuple(classes) if classes is not None else self._source.classes
        self.unknown = tuple(name for name in self._source.classes if name not in self.classes)
        if len(self.unknown) == len(self._source.classes):
            raise DataError(
                f"the model knows {', '.join(self.classes)}, but {directory} has {', '.join(self._source.classes)}: "
                "they have no class in common."
            )

    def __len__(self) -> int:
        return len(self._source)

    def boxes(self) -> Iterator[tuple[tuple[int, int], NDArray[np.float32]]]:
        """The size of every frame and its boxes (n, 4) as x, y, width, height, without opening a picture."""
        for snippet in self._source.snippets:
            for image in snippet.images:
                yield (image.width, image.height), image.annotations.boxes

    def __iter__(self) -> Iterator[NamedFrame]:
        numbers = {name: number for number, name in enumerate(self.classes)}
        relabel = np.array([numbers.get(name, -1) for name in self._source.classes], dtype=np.int64)
        try:
            for frame in self._source.frames():
                labels = relabel[frame.labels]
                known = labels >= 0
                yield NamedFrame(frame.image, f"{frame.frame:06d}", frame.boxes[known], labels[known])
        except SnippetError as error:
            raise DataError(str(error)) from error


def is_snippet(directory: Path) -> bool:
    """Whether a folder is a recorded drive and not just pictures."""
    return (directory / "annotations.json").is_file() or (directory / "annotations.jsonl").is_file()


def _remedy(path: str) -> str:
    given = Path(path).expanduser()
    if given.is_absolute():
        return "name a folder with frames and their annotations.json, such as `carla-bridge record` makes"
    return (
        f"set FEDAGEM_DATA to the folder that holds {given.parts[0] if given.parts else path}, or give absolute paths"
    )
