"""A folder that appears when all of it is written, and not at all if writing fails."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from carla_bridge.errors import SnippetError


def require_free(out: Path) -> None:
    """Refuse to write where something is already."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SnippetError(f"{out} exists and is not an empty folder: choose another --out")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yields the folder to fill, which takes the name `out` at the end."""
    require_free(out)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
