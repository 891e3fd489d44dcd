"""Downloads that fail leave nothing behind that could be taken for data."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def fetching_into(root: Path) -> Iterator[None]:
    """A context for downloads to `root`; if one fails, folders that it made and left empty are removed."""
    before = {root, *root.parents, *_folders_in(root)}
    before = {folder for folder in before if folder.exists()}
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
