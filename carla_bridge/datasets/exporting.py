"""Writes snippets in the format of YOLO, so that other tools can train on drives."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from carla_bridge.datasets.new_folder import new_folder
from carla_bridge.frames import Box
from carla_bridge.snippets import SnippetSource
from carla_bridge.snippets.layout import ImageRecord
from fedagem.files import link_or_copy


@dataclass(frozen=True)
class Exported:
    """What an export made."""

    train: int
    val: int
    boxes: int


def export_yolo(
    source: SnippetSource,
    out: Path,
    *,
    val: float = 0.2,
    show: Callable[[float], None] = lambda done: None,
) -> Exported:
    """Images and labels by split and domain, and `data.yaml`.

    `val` is the share of each snippet, from its end, that is kept for the validation: neighbouring frames are alike, so
    that single ones would be no test.
    """
    frames, boxes = {"train": 0, "val": 0}, 0
    with new_folder(out) as folder:
        for number, snippet in enumerate(source.snippets):
            begin = len(snippet.images) - round(len(snippet.images) * val)
            for index, image in enumerate(snippet.images):
                split = "train" if index < begin else "val"
                name = f"{number:03d}_{snippet.vehicle}_{image.frame:08d}"
                _write(folder, f"{split}/{snippet.domain}", name, image)
                frames[split] += 1
                boxes += len(image.annotations)
                show(sum(frames.values()))
        for split in frames:
            (folder / "images" / split).mkdir(parents=True, exist_ok=True)
        names = dict(enumerate(source.classes))
        data = {"path": ".", "train": "images/train", "val": "images/val", "names": names}
        (folder / "data.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return Exported(frames["train"], frames["val"], boxes)


def _write(home: Path, folder: str, name: str, image: ImageRecord) -> None:
    pictures, labels = home / "images" / folder, home / "labels" / folder
    pictures.mkdir(parents=True, exist_ok=True)
    labels.mkdir(parents=True, exist_ok=True)
    link_or_copy(image.path, pictures / f"{name}{image.path.suffix}")
    (labels / f"{name}.txt").write_text("".join(_line(box, image.width, image.height) for box in image.annotations))


def _line(box: Box, width: int, height: int) -> str:
    """Twelve digits: read again, a box is where it was to a millionth of a pixel."""
    x, y = (box.x + box.width / 2) / width, (box.y + box.height / 2) / height
    return f"{box.label} {x:.12g} {y:.12g} {box.width / width:.12g} {box.height / height:.12g}\n"
