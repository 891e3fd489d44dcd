"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def wait_for(look: Callable[[], T], seconds: float = 60.0, explain: Callable[[], object] = str) -> T:
    """What `look` finds, as soon as it finds something; it may also say that waiting has become useless."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing happened within {seconds:g} s\n{explain()}"
        time.sleep(0.01)
    return found


def waits_for_a_lock(pid: int) -> bool:
    """Whether a process waits for a lock that another one holds; Linux lists those with an arrow."""
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any("->" in line and str(pid) in line for line in lines)
