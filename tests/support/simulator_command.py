"""`carla-bridge simulator` as a process, and the processes that draw for it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120.0


@contextmanager
def simulator(*options: str, module: str | None = None) -> Iterator["subprocess.Popen[str]"]:
    """The command, or a module of the tests in its place."""
    program = [module] if module else ["carla_bridge.cli.main", "simulator"]
    process = subprocess.Popen(
        [sys.executable, "-m", *program, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def port_of(process: "subprocess.Popen[str]") -> int:
    """Where it listens, as soon as it does."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listening on 127.0.0.1:" in line
    return int(line.split(":")[1].split(",")[0])


def workers_of(process: "subprocess.Popen[str]", count: int = 2) -> list[psutil.Process]:
    """The drawing processes, as soon as there are so many of them."""

    def find() -> list[psutil.Process]:
        found = psutil.Process(process.pid).children()
        return found if len(found) >= count else []

    return wait_for(find, PATIENCE)
