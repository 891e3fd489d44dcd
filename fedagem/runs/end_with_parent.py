"""Start a program that ends with the process that started it, even if that one is killed: `PARENT COMMAND...`.

A separate program that imports nothing of this package: a parent with threads must not do anything between fork and
exec.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the command, unless the parent is gone already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == int(sys.argv[1]):
        os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
