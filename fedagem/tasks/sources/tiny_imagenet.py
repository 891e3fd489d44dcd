"""Tiny-ImageNet in its original layout, as a folder or as one tar file."""

import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from fedagem.errors import DataError
from fedagem.tasks.sources.decoded import decoded_once
from fedagem.tasks.sources.image_files import decode_all
from fedagem.tasks.sources.labelled import Labelled, Source

Files = dict[str, bytes]
"""Contents by path below `tiny-imagenet-200/`."""


def tiny_imagenet(root: Path) -> Source:
    """200 classes of 64 x 64 images; `root` is the folder `tiny-imagenet-200`, one that holds it, or a tar of it.

    A tar is read as it is: unpacked, it would be 110,000 small files.
    """
    if not root.exists():
        raise DataError(
            f"{root} does not exist: put Tiny-ImageNet there (the folder tiny-imagenet-200), or name a tar of it with "
            "--set data_loader.settings.root=tiny-imagenet-200.tar (a path within the data folder, or an absolute one)."
        )
    files = sorted(_wanted(_folder_of(root))) if root.is_dir() else [root]
    return decoded_once("tiny_imagenet", root, files, partial(_decode, root))


def missing_tiny_imagenet(root: Path, **_: object) -> list[Path]:
    """What Tiny-ImageNet lacks in `root`; a tar file is taken to be whole."""
    if root.is_file():
        return []
    folder = _folder_of(root)
    return [path for path in (folder / "wnids.txt", folder / "train", folder / "val") if not path.exists()]


def _decode(root: Path) -> Source:
    files = _files_of(root)
    try:
        classes = files["wnids.txt"].decode().split()
        answers = [line.split("\t")[:2] for line in files["val/val_annotations.txt"].decode().splitlines() if line]
    except KeyError as problem:
        raise DataError(
            f"{root} has no {problem.args[0]}: put Tiny-ImageNet there as it is distributed (tiny-imagenet-200 with "
            "train, val, wnids.txt), or name a tar of it with --set data_loader.settings.root=tiny-imagenet-200.tar."
        ) from problem
    labels = {name: label for label, name in enumerate(classes)}
    train_paths = sorted(path for path in files if path.startswith("train/") and path.endswith(".JPEG"))
    train = _labelled(root, files, [(path, labels[path.split("/")[1]]) for path in train_paths])
    test = _labelled(root, files, [(f"val/images/{name}", labels[wnid]) for name, wnid in answers])
    return Source(train, test, classes=len(classes))


def _labelled(root: Path, files: Files, members: list[tuple[str, int]]) -> Labelled:
    missing = [path for path, _ in members if path not in files]
    if missing or not members:
        raise DataError(f"{root} is incomplete: {missing[0] if missing else 'its training images'} is missing.")
    images = decode_all((f"{root}: {path}", files[path]) for path, _ in members)
    return Labelled(images, torch.tensor([label for _, label in members]))


def _files_of(root: Path) -> Files:
    if root.is_dir():
        folder = _folder_of(root)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _wanted(folder)}
    try:
        with tarfile.open(root) as archive:
            return {
                member.name.split("tiny-imagenet-200/", 1)[-1]: content.read()
                for member in archive
                if member.isfile() and (content := archive.extractfile(member)) is not None
            }
    except tarfile.TarError as problem:
        raise DataError(f"{root} is neither a folder nor a tar file: {problem}.") from problem


def _folder_of(root: Path) -> Path:
    nested = root / "tiny-imagenet-200"
    return nested if nested.is_dir() else root


def _wanted(folder: Path) -> Iterator[Path]:
    for name in ("wnids.txt", "val/val_annotations.txt"):
        if (folder / name).exists():
            yield folder / name
    for pattern in ("train/*/images/*.JPEG", "val/images/*.JPEG"):
        yield from folder.glob(pattern)
