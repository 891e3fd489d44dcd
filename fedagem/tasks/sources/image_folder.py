"""Any images in folders: `train/<class>/...` and `test/<class>/...`."""

from pathlib import Path

import torch

from fedagem.errors import DataError
from fedagem.tasks.sources.decoded import decoded_once
from fedagem.tasks.sources.image_files import decode_all
from fedagem.tasks.sources.labelled import Labelled, Source


def image_folder(root: Path, size: int | None = None) -> Source:
    """One folder per class, named alike in `train` and `test`; `size` scales every image to size x size pixels."""
    from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

    for split in ("train", "test"):
        if not (root / split).is_dir():
            raise DataError(f"{root / split} does not exist: put images there as {split}/<class>/<name>.jpg (or .png).")
    names = sorted(folder.name for folder in (root / "train").iterdir() if folder.is_dir())
    if not names:
        raise DataError(f"{root / 'train'} has no folders: every class needs one, with its images.")
    labels = {name: label for label, name in enumerate(names)}
    found = {}
    for split in ("train", "test"):
        try:
            found[split] = make_dataset(str(root / split), labels, IMG_EXTENSIONS)
        except FileNotFoundError as problem:
            raise DataError(f"{root / split} lacks images of some classes: {problem}.") from problem

    def decode() -> Source:
        train, test = (_labelled(found[split], size) for split in ("train", "test"))
        return Source(train, test, classes=len(names))

    files = [Path(path) for split in found.values() for path, _ in split]
    return decoded_once(f"image_folder-{size or 'original'}", root, files, decode)


def missing_images(root: Path, **_: object) -> list[Path]:
    """What a folder of images lacks."""
    return [root / split for split in ("train", "test") if not (root / split).is_dir()]


def _labelled(found: list[tuple[str, int]], size: int | None) -> Labelled:
    images = decode_all(((path, Path(path).read_bytes()) for path, _ in found), size)
    return Labelled(images, torch.tensor([label for _, label in found]))
