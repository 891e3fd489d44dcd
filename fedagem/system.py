"""torch and torchvision are compiled against each other; a mixed pair fails in the middle of an import."""

import importlib
from importlib.metadata import PackageNotFoundError, requires, version

from fedagem.errors import FedAGemError


def check_torch_pair() -> None:
    """Refuse a torchvision that was not made for the installed torch.

    The versions that this package asks for, built alike, are known to fit, so nothing is imported for them.
    """
    pinned = [need for need in requires("fedagem") or [] if need.startswith(("torch==", "torchvision=="))]
    if sorted(f"{name}=={_installed(name)}" for name in ("torch", "torchvision")) == sorted(pinned):
        return
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError, OSError) as problem:
        raise FedAGemError(
            f"torchvision {_installed('torchvision')} does not fit torch {_installed('torch')} ({problem}): install "
            f"both from one index with `pip install --force-reinstall {' '.join(pinned)}`."
        ) from problem


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
