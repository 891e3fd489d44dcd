"""MNIST, from its four original files or through torchvision."""

import gzip
import zlib
from pathlib import Path

import torch
from torch import Tensor

from fedagem.errors import DataError
from fedagem.tasks.sources.fetching import through_torchvision
from fedagem.tasks.sources.labelled import Labelled, Source

_ORIGINALS = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
_HEADERS = {"images": 16, "labels": 8}
"""How many bytes of a file come before its pixels or labels."""


def mnist(root: Path) -> Source:
    """MNIST; `root` holds the four original files, or torchvision's own copy of them, or is where it may put them."""
    raw = root / "MNIST" / "raw"
    if all((raw / name).exists() for name in _ORIGINALS):
        train_x, train_y, test_x, test_y = (_unpack(raw / name) for name in _ORIGINALS)
    else:
        train_x, train_y, test_x, test_y = _through_torchvision(root)
    train, test = (_labelled(root, x, y) for x, y in ((train_x, train_y), (test_x, test_y)))
    return Source(train, test, classes=10)


def missing_mnist(root: Path, **_: object) -> list[Path]:
    """What MNIST lacks in `root`: nothing if the original files are there, packed or unpacked by torchvision."""
    raw = root / "MNIST" / "raw"
    packed, unpacked = ([raw / name for name in names] for names in (_ORIGINALS, [name[:-3] for name in _ORIGINALS]))
    if all(path.exists() for path in unpacked):
        return []
    return [path for path in packed if not path.exists()]


def _unpack(path: Path) -> Tensor:
    """Unpack in memory: torchvision would unpack next to the file, in a folder that may be read-only."""
    header = _HEADERS[path.name.split("-")[1]]
    try:
        content = gzip.decompress(path.read_bytes())
        return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header)
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        raise DataError(f"{path} is damaged ({problem}): replace it by the original file.") from problem


def _through_torchvision(root: Path) -> list[Tensor]:
    from torchvision.datasets import MNIST

    advice = (
        f"put the four original .gz files into {root / 'MNIST' / 'raw'}, or set data_loader.settings.root to the "
        "folder that has them."
    )
    parts = through_torchvision(MNIST, root, advice)
    return [values for part in parts for values in (part.data, part.targets)]


def _labelled(root: Path, pixels: Tensor, labels: Tensor) -> Labelled:
    if pixels.numel() != len(labels) * 28 * 28:
        raise DataError(f"{root} is not MNIST: {pixels.numel()} pixels for {len(labels)} images of 28 x 28.")
    return Labelled(pixels.view(-1, 1, 28, 28), labels.long())
