"""Where the repository's OpenFL workspace is: every run copies it, and plans name its classes."""

from pathlib import Path

import fedagem
from fedagem.errors import FedAGemError


def workspace_source() -> Path:
    """The folder `workspace/` of the checkout that this package was installed from."""
    workspace = Path(fedagem.__file__).resolve().parent.parent / "workspace"
    if not (workspace / "src").is_dir():
        raise FedAGemError(f"{workspace} is missing: install fedagem from a checkout with `make install`.")
    return workspace
