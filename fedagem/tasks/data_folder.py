"""Where data sets are looked for on this machine, and where what is made of them is kept."""

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedagem.files import Lock

logger = logging.getLogger(__name__)

_USUAL = "~/.cache/fedagem"


def data_folder() -> Path:
    """The folder of all data sets: FEDAGEM_DATA, or `~/.cache/fedagem`."""
    return Path(os.environ.get("FEDAGEM_DATA") or _USUAL).expanduser()


def resolve_root(root: str) -> Path:
    """A plan's data path on this machine: absolute paths as they are, others within the data folder."""
    return data_folder() / Path(root).expanduser()


def cache_folder() -> Path:
    """Where decoded images and features of texts are kept: the data folder, or `~/.cache/fedagem` if that is read-only.

    A folder without any permission to write counts as read-only for root, too.
    """
    folder = data_folder()
    if folder.exists() and not (folder.stat().st_mode & 0o222 and os.access(folder, os.W_OK)):
        return Path(_USUAL).expanduser()
    return folder


@contextmanager
def one_process_at_a_time(what: Path) -> Iterator[None]:
    """While a process makes `what`, others of this machine wait here; they should then look for it again.

    The clients of a machine start together. Without this, each of them would download, decode or encode the same data,
    as they do if the cache folder cannot be written.
    """
    name = hashlib.sha256(str(what.resolve()).encode()).hexdigest()[:16]
    path = cache_folder() / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path)
    except OSError as problem:
        logger.warning("%s cannot be written (%s): processes do not wait for each other.", path, problem.strerror)
        yield
        return
    with lock:
        if not lock.take():
            logger.info("Another process is preparing %s: waiting for it.", what)
            lock.take(wait=True)
        yield
