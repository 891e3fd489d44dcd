"""Where data sets are looked for on this machine."""

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder of all data sets: FEDAGEM_DATA, or `~/.cache/fedagem`."""
    return Path(os.environ.get("FEDAGEM_DATA") or "~/.cache/fedagem").expanduser()


def resolve_root(root: str) -> Path:
    """A plan's data path on this machine: absolute paths as they are, others within the data folder."""
    return data_folder() / Path(root).expanduser()
