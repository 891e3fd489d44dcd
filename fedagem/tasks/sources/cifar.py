"""CIFAR-10 and CIFAR-100, through torchvision or from a pack of encoded images."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from fedagem.errors import DataError
from fedagem.tasks.sources.decoded import decoded_once
from fedagem.tasks.sources.fetching import through_torchvision
from fedagem.tasks.sources.image_files import decode_all
from fedagem.tasks.sources.labelled import Labelled, Source

_BYTES = ("images", "jpeg")
"""What a pack may call the bytes of its images; they say themselves whether they are WebP, JPEG or PNG."""


def cifar10(root: Path) -> Source:
    """CIFAR-10."""
    return _cifar(root, "CIFAR10", "cifar-10-python.tar.gz", classes=10)


def cifar100(root: Path) -> Source:
    """CIFAR-100 with its 100 fine classes."""
    return _cifar(root, "CIFAR100", "cifar-100-python.tar.gz", classes=100)


def missing_cifar10(root: Path, **_: object) -> list[Path]:
    """What CIFAR-10 lacks in `root`."""
    return _missing(root, "CIFAR10", "cifar-10-python.tar.gz")


def missing_cifar100(root: Path, **_: object) -> list[Path]:
    """What CIFAR-100 lacks in `root`."""
    return _missing(root, "CIFAR100", "cifar-100-python.tar.gz")


def _missing(root: Path, name: str, archive: str) -> list[Path]:
    """Nothing if there is a pack, the archive, or torchvision's unpacked copy of it."""
    from torchvision import datasets

    if (root / "train.npz").exists():
        return [path for path in (root / "test.npz",) if not path.exists()]
    data_set = getattr(datasets, name)
    unpacked = [root / data_set.base_folder / file for file, _ in data_set.train_list + data_set.test_list]
    if (root / archive).exists() or all(path.exists() for path in unpacked):
        return []
    return [root / archive]


def _cifar(root: Path, name: str, archive: str, classes: int) -> Source:
    packs = [root / f"{split}.npz" for split in ("train", "test")]
    if not packs[0].exists():
        return Source(*_through_torchvision(root, name, archive), classes)
    if not packs[1].exists():
        raise DataError(f"{packs[1]} does not exist: a pack consists of train.npz and test.npz.")

    def decode() -> Source:
        train, test = (_read_pack(pack, classes) for pack in packs)
        return Source(train, test, classes)

    return decoded_once(name.lower(), root, packs, decode)


def _through_torchvision(root: Path, name: str, archive: str) -> tuple[Labelled, Labelled]:
    from torchvision import datasets

    advice = (
        f"put {archive} (or a pack, train.npz and test.npz) there, or set data_loader.settings.root to the folder that "
        "has it."
    )
    parts = through_torchvision(getattr(datasets, name), root, advice)
    train, test = (
        Labelled(torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(part.targets))
        for part in parts
    )
    return train, test


def _read_pack(path: Path, classes: int) -> Labelled:
    """A pack: the bytes of all images (`images` or `jpeg`), of image i from `offsets[i]` on, and `labels`."""
    try:
        with np.load(path) as pack:
            key = next((key for key in _BYTES if key in pack), _BYTES[0])
            content, offsets, labels = (np.asarray(pack[name]) for name in (key, "offsets", "labels"))
    except (OSError, ValueError, KeyError, BadZipFile) as problem:
        raise DataError(f"{path} is not a pack of images (images or jpeg, offsets, labels): {problem}.") from problem
    if (
        len(offsets) != len(labels) + 1
        or offsets[-1] != len(content)
        or not 0 <= labels.min() <= labels.max() < classes
    ):
        raise DataError(
            f"{path} is damaged: {len(labels)} labels from {labels.min()} to {labels.max()}, {len(offsets)} offsets "
            f"up to {offsets[-1]} for {len(content)} bytes, but {classes} classes are expected."
        )
    return Labelled(decode_all(_images(path, content, offsets)), torch.from_numpy(labels.astype(np.int64)))


def _images(path: Path, content: np.ndarray, offsets: np.ndarray) -> Iterator[tuple[str, bytes]]:
    for i, (start, end) in enumerate(pairwise(offsets)):
        yield f"image {i} of {path}", content[start:end].tobytes()
