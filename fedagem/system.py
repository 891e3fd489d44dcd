"""torch and torchvision are compiled against each other; a mixed pair fails in the middle of an import."""

import importlib
import re
import shlex
from importlib.metadata import PackageNotFoundError, requires, version

from fedagem.errors import FedAGemError

_MINOR_OFFSET = 15
"""torchvision 0.N was made for torch 2.(N - 15): 0.27 for 2.12, 0.28 for 2.13."""


def check_torch_pair() -> None:
    """Refuse a torchvision that was not made for the installed torch.

    Two releases that belong together, built alike, are known to fit, so nothing is imported for them.
    """
    torch, torchvision = _installed("torch"), _installed("torchvision")
    if _belong_together(torch, torchvision):
        return
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError, OSError) as problem:
        needed = [need for need in requires("fedagem") or [] if re.match(r"torch(vision)?[<>=!~]", need)]
        raise FedAGemError(
            f"torchvision {torchvision} does not fit torch {torch} ({problem}): install both from one index with "
            f"`pip install --force-reinstall {shlex.join(needed)}`."
        ) from problem


def _belong_together(torch: str, torchvision: str) -> bool:
    """Whether the versions are those of one release, built alike (both `+cpu`, for example, or both without)."""
    ours, theirs = (re.match(r"(\d+)\.(\d+)\.\d+(\+.*)?$", version) for version in (torch, torchvision))
    if ours is None or theirs is None or (ours[1], theirs[1]) != ("2", "0"):
        return False
    return int(theirs[2]) == int(ours[2]) + _MINOR_OFFSET and ours[3] == theirs[3]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
