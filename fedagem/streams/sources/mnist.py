"""MNIST through torchvision."""

import os
import tempfile
from pathlib import Path

from fedagem.errors import DataError
from fedagem.streams.sources.labelled import Labelled, Source


def mnist(root: Path) -> Source:
    """MNIST; `root` holds the four original files, or torchvision's own copy of them, or is where it may put them."""
    raw = root / "MNIST" / "raw"
    if raw.is_dir() and not os.access(raw, os.W_OK):
        with tempfile.TemporaryDirectory() as unpacked:
            (Path(unpacked) / "MNIST" / "raw").mkdir(parents=True)
            for file in raw.iterdir():
                (Path(unpacked) / "MNIST" / "raw" / file.name).symlink_to(file.resolve())
            return _read(Path(unpacked), root)
    return _read(root, root)


def _read(folder: Path, root: Path) -> Source:
    """torchvision unpacks beside the files, so a folder that cannot be written is read through links to it."""
    from torchvision.datasets import MNIST

    try:
        parts = [MNIST(str(folder), train=train, download=True) for train in (True, False)]
    except (RuntimeError, OSError) as problem:
        raise DataError(
            f"MNIST is not in {root} and could not be fetched ({problem}): put the four original .gz files into "
            f"{root / 'MNIST' / 'raw'}, or set data_loader.settings.root to the folder that has them."
        ) from problem
    train, test = (Labelled(part.data.unsqueeze(1), part.targets.long()) for part in parts)
    return Source(train, test, classes=10)
