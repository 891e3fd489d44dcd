"""The data sets that benchmarks are made of, one file for each."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fedagem.errors import DataError
from fedagem.settings import check_arguments, suggestion
from fedagem.streams.sources.cifar import cifar10, cifar100
from fedagem.streams.sources.data_folder import resolve_root
from fedagem.streams.sources.digits import digits
from fedagem.streams.sources.image_folder import image_folder
from fedagem.streams.sources.labelled import Labelled, Source
from fedagem.streams.sources.mnist import mnist
from fedagem.streams.sources.tiny_imagenet import tiny_imagenet
from fedagem.streams.sources.yahooqa import yahooqa

__all__ = ["SOURCES", "Labelled", "Source", "load_source"]

SOURCES: dict[str, Callable[..., Source]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "digits": digits,
    "image_folder": image_folder,
    "mnist": mnist,
    "tiny_imagenet": tiny_imagenet,
    "yahooqa": yahooqa,
}


def load_source(name: str, root: str | None = None, settings: Mapping[str, Any] | None = None) -> Source:
    """The data set called `name` from `root` (by default the folder of that name), with settings of its own."""
    if name not in SOURCES:
        raise DataError(f"there is no data set {name!r}{suggestion(name, SOURCES)}")
    load = partial(SOURCES[name], resolve_root(root or name))
    check_arguments(load, settings or {}, "data_loader.settings.dataset_settings")
    return load(**(settings or {}))
