"""The data sets that benchmarks are made of, one file for each."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedagem.errors import DataError
from fedagem.settings import check_arguments, suggestion
from fedagem.tasks.data_folder import resolve_root
from fedagem.tasks.sources.cifar import cifar10, cifar100, missing_cifar10, missing_cifar100
from fedagem.tasks.sources.digits import digits
from fedagem.tasks.sources.image_folder import image_folder, missing_images
from fedagem.tasks.sources.labelled import Labelled, Source
from fedagem.tasks.sources.mnist import missing_mnist, mnist
from fedagem.tasks.sources.tiny_imagenet import missing_tiny_imagenet, tiny_imagenet
from fedagem.tasks.sources.yahooqa import missing_yahooqa, yahooqa

__all__ = ["SOURCES", "Labelled", "Source", "comes_with_a_package", "load_source", "missing_files"]

SOURCES: dict[str, Callable[..., Source]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "digits": digits,
    "image_folder": image_folder,
    "mnist": mnist,
    "tiny_imagenet": tiny_imagenet,
    "yahooqa": yahooqa,
}

_MISSING: dict[str, Callable[..., list[Path]]] = {
    "cifar10": missing_cifar10,
    "cifar100": missing_cifar100,
    "image_folder": missing_images,
    "mnist": missing_mnist,
    "tiny_imagenet": missing_tiny_imagenet,
    "yahooqa": missing_yahooqa,
}
"""The files that a data set needs and that are not there; data sets without an entry come with a package."""


def comes_with_a_package(name: str) -> bool:
    """Whether a data set is installed with a package and needs no files."""
    return name not in _MISSING


def missing_files(name: str, root: str | None = None, settings: Mapping[str, Any] | None = None) -> list[Path]:
    """The files of a data set that are not on this machine; looks without reading, fetching or making anything."""
    _check_name(name)
    return [] if comes_with_a_package(name) else _MISSING[name](resolve_root(root or name), **(settings or {}))


def load_source(name: str, root: str | None = None, settings: Mapping[str, Any] | None = None) -> Source:
    """The data set called `name` from `root` (by default the folder of that name), with the settings that it takes."""
    _check_name(name)
    load = partial(SOURCES[name], resolve_root(root or name))
    check_arguments(load, settings or {}, "data_loader.settings.dataset_settings")
    return load(**(settings or {}))


def _check_name(name: str) -> None:
    if name not in SOURCES:
        raise DataError(f"there is no data set {name!r}{suggestion(name, SOURCES)}")
