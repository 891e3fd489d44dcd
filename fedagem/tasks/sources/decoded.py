"""Images that take seconds to decode are decoded once; every process then maps the same file."""

import hashlib
import logging
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torchvision

from fedagem.errors import FedAGemError
from fedagem.files import replacing
from fedagem.tasks.data_folder import cache_folder, one_process_at_a_time
from fedagem.tasks.sources.labelled import Labelled, Source

logger = logging.getLogger(__name__)

_WORTH_KEEPING = 4 * 2**20
"""Bytes of encoded images; fewer are decoded in about half a second, whenever they are read."""


def decoded_once(name: str, root: Path, files: Sequence[Path], decode: Callable[[], Source]) -> Source:
    """What `decode` makes of `files`, kept on disk until one of them has another size or time of change.

    `name` and `root` say what it is. Processes map the kept file instead of reading it: they start at once and share
    its memory. If it cannot be kept, every process decodes for itself.
    """
    stats = [file.stat() for file in files]
    if sum(stat.st_size for stat in stats) < _WORTH_KEEPING:
        return decode()
    facts = [f"{file} {stat.st_size} {stat.st_mtime_ns}" for file, stat in zip(files, stats, strict=True)]
    origin = _digest(f"torchvision {torchvision.__version__}", *facts)
    path = cache_folder() / "decoded" / f"{name}-{_digest(str(root.resolve()))[:16]}.tensors"
    if (kept := _read(path, origin)) is not None:
        return kept
    with one_process_at_a_time(path):
        if (kept := _read(path, origin)) is not None:
            return kept
        logger.info("Decoding the images of %s, to be kept in %s.", root, path)
        source = decode()
        try:
            _write(path, origin, source)
        except FedAGemError as problem:
            logger.warning("%s Every process decodes the images of %s for itself.", problem.message, root)
        return _read(path, origin) or source


def _digest(*facts: str) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _write(path: Path, origin: str, source: Source) -> None:
    content = {"origin": origin, "classes": source.classes}
    tensors = {"train": (source.train.x, source.train.y), "test": (source.test.x, source.test.y)}
    with replacing(path) as file:
        torch.save({**content, **tensors}, file)


def _read(path: Path, origin: str) -> Source | None:
    """The kept tensors; None if there are none, if they are of other files, or if the file is damaged."""
    try:
        content = torch.load(path, mmap=True, weights_only=True)
        if content["origin"] != origin:
            return None
        return Source(Labelled(*content["train"]), Labelled(*content["test"]), content["classes"])
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError, pickle.UnpicklingError):
        return None
