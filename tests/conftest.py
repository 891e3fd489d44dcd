"""Fixtures for every room."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Let Ctrl-C be tested also where the shell started the tests in the background, deaf to it.

    And let the many processes that tests start keep what they compile, also where Python is told not to.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def data_pack() -> Callable[[str], Path]:
    """Finds a pack of test data by name, or skips: FEDAGEM_DATA, or `shared/data` beside the repository."""
    root = Path(os.environ.get("FEDAGEM_DATA", REPOSITORY.parent / "shared" / "data"))

    def find(name: str) -> Path:
        if not (root / name).exists():
            pytest.skip(f"the data pack {name!r} is not in {root} (set FEDAGEM_DATA to the folder that has it)")
        return root / name

    return find
