"""What this project asks of the operating system and of the installed libraries."""

import ctypes
import importlib
import re
import shlex
import signal
import socket
from importlib.metadata import PackageNotFoundError, requires, version

from fedagem.errors import FedAGemError

_MINOR_OFFSET = 15
"""torchvision 0.N was made for torch 2.(N - 15): 0.27 for 2.12, 0.28 for 2.13."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of mallopt(3)."""
_PR_SET_PDEATHSIG = 1
"""The option of prctl(2)."""


def keep_freed_pages() -> None:
    """Let the C library keep memory that is freed: every training step needs the same activations again.

    Otherwise large tensors go back to the system after each use, and their pages cost a third of a training step.
    Does nothing if the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, -1)


def end_with_parent(number: signal.Signals) -> None:
    """Send this process a signal when the one that started it ends, even if that one is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


class HeldPort:
    """A free TCP port of this machine, taken as soon as it is chosen, for a process that will listen on it later.

    It is bound on all interfaces with SO_REUSEPORT, as gRPC binds its ports: this user's gRPC server can bind it, too,
    and nobody else can. Connections only reach whoever listens, which the holder never does.
    """

    def __init__(self) -> None:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family is socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self._socket.bind(("", 0))
        except OSError as problem:
            self._socket.close()
            raise FedAGemError(f"no port is free on this machine: {problem}.") from problem
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Let others have it."""
        self._socket.close()


def check_torch_pair() -> None:
    """Refuse a torchvision that was not built for the installed torch: it fails in the middle of an import.

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
