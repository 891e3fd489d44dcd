"""Recorded drives for the commands: the one place of this room that opens the bridge's snippets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedagem.detection.footage import NamedFrame
from fedagem.errors import DataError


class SnippetFrames:
    """The frames of one snippet, labelled for a model: boxes of classes that it does not know are left out."""

    def __init__(self, directory: Path, classes: Sequence[str] | None = None) -> None:
        from carla_bridge.snippets import SnippetError, SnippetSource

        try:
            self._source = SnippetSource([directory])
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
        from carla_bridge.snippets import SnippetError

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
