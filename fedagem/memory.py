"""How a training process treats memory that it has freed."""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of mallopt(3)."""


def keep_freed_pages() -> None:
    """Let the C library keep what is freed: every step wants the same activations again.

    Otherwise large tensors go back to the system after each use, and their pages cost a third of a training step.
    Where the C library is not glibc nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, -1)
