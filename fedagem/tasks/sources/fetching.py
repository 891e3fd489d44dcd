"""Data sets that torchvision downloads: by one process at a time, and a failure leaves nothing that looks like data."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedagem.errors import DataError
from fedagem.tasks.data_folder import one_process_at_a_time


def through_torchvision(data_set: Callable[..., Any], root: Path, advice: str) -> list[Any]:
    """The training and the test part of torchvision's `data_set` in `root`, downloaded if they are not there.

    If they cannot be, the error ends with the `advice`.
    """

    def load(download: bool) -> list[Any]:
        return [data_set(str(root), train=train, download=download) for train in (True, False)]

    try:
        return load(download=False)
    except RuntimeError:  # missing or damaged
        try:
            with _fetching_into(root):
                return load(download=True)
        except (RuntimeError, OSError) as problem:
            reason = " ".join(str(problem).split())
            name = getattr(data_set, "__name__", "the data set")
            raise DataError(f"{name} is not in {root} and could not be fetched ({reason}): {advice}") from problem


@contextmanager
def _fetching_into(root: Path) -> Iterator[None]:
    """A context for downloads to `root`; if one fails, folders that it made and left empty are removed."""
    with one_process_at_a_time(root):
        before = {folder for folder in {root, *root.parents, *_folders_in(root)} if folder.exists()}
        try:
            yield
        except BaseException:
            for folder in [*_folders_in(root), root, *root.parents]:
                if folder not in before:
                    with suppress(OSError):  # not empty, or never made
                        folder.rmdir()
            raise


def _folders_in(root: Path) -> list[Path]:
    """All folders below `root`, the deepest first."""
    return [Path(folder) for folder, _, _ in os.walk(root, topdown=False)]
