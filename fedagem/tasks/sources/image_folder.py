"""Any images in folders: `train/<class>/...` and `test/<class>/...`."""

from pathlib import Path

import torch

from fedagem.errors import DataError
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
    parts = []
    for split in ("train", "test"):
        try:
            found = make_dataset(str(root / split), labels, IMG_EXTENSIONS)
        except FileNotFoundError as problem:
            raise DataError(f"{root / split} lacks images of some classes: {problem}.") from problem
        images = decode_all(((path, Path(path).read_bytes()) for path, _ in found), size)
        parts.append(Labelled(images, torch.tensor([label for _, label in found])))
    train, test = parts
    return Source(train, test, classes=len(names))


def missing_images(root: Path, **_: object) -> list[Path]:
    """What a folder of images lacks."""
    return [root / split for split in ("train", "test") if not (root / split).is_dir()]
