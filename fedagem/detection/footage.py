"""Pictures and videos as frames for the detector, and drawn frames back as pictures or a video."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from fedagem.detection.pictures import Image, write_image
from fedagem.errors import DataError

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
Write = Callable[[str, Image], None]


def _no_boxes() -> NDArray[np.float32]:
    return np.zeros((0, 4), dtype=np.float32)


def _no_labels() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class NamedFrame:
    """A frame, what to call it in results, and its annotations if it has any."""

    image: Image
    name: str
    boxes: NDArray[np.float32] = field(default_factory=_no_boxes)
    labels: NDArray[np.int64] = field(default_factory=_no_labels)


class Pictures:
    """Picture files, opened one after the other."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)

    @classmethod
    def of_folder(cls, folder: Path) -> Pictures:
        paths = sorted(path for path in folder.iterdir() if is_picture(path))
        if not paths:
            raise DataError(f"{folder} holds neither pictures ({', '.join(PICTURE_SUFFIXES)}) nor a recorded drive.")
        return cls(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[NamedFrame]:
        for path in self._paths:
            bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
            if bgr is None:
                raise DataError(f"{path} is not a picture that can be read.")
            yield NamedFrame(rgb(bgr), path.stem)


class Video:
    """The frames of a video file, by number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        capture = cv2.VideoCapture(str(path))
        opened = capture.isOpened()
        self.rate = float(capture.get(cv2.CAP_PROP_FPS))
        self._count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        capture.release()
        if not opened or not self.rate > 0:
            raise DataError(f"{path} is neither a picture nor a video that can be read.")

    def __len__(self) -> int:
        """As many as the file claims; it may hold fewer."""
        return max(self._count, 0)

    def __iter__(self) -> Iterator[NamedFrame]:
        capture = cv2.VideoCapture(str(self._path))
        try:
            number = 0
            while True:
                more, bgr = capture.read()
                if not more:
                    break
                yield NamedFrame(rgb(bgr), f"{number:06d}")
                number += 1
        finally:
            capture.release()


def rgb(bgr: Any) -> Image:
    """OpenCV's order of colours turned into everybody else's."""
    image: Image = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)  # type: ignore[assignment]
    return image


def is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURE_SUFFIXES


@contextmanager
def picture_writer(folder: Path) -> Iterator[Write]:
    """Writes every frame as a PNG of its name."""
    yield lambda name, image: write_image(str(folder / f"{name}.png"), image)


@contextmanager
def video_writer(path: Path, rate: float) -> Iterator[Write]:
    """Writes frames of one size into an MP4 file."""
    writers: list[cv2.VideoWriter] = []

    def write(_: str, image: Image) -> None:
        if not writers:
            size = (image.shape[1], image.shape[0])
            writers.append(cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), rate, size))
            if not writers[0].isOpened():
                raise DataError(f"the video {path} cannot be written.")
        writers[0].write(cv2.cvtColor(image, cv2.COLOR_RGB2BGR))

    try:
        yield write
    finally:
        for writer in writers:
            writer.release()
