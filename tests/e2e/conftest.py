"""Two undisturbed runs of one plan, one in a single process and one as a federation, that everything is held to."""

import fcntl
import os
from pathlib import Path

import pytest

from tests.support.fx_federations import SETTINGS, fedagem, finish


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes on a loaded machine take their time."""
    for item in items:
        if "/e2e/" in str(item.path):
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def plan_path(repository: Path) -> Path:
    return repository / "plan" / "rotated_digits.yaml"


def complete(command: str, plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run; test processes side by side share what the first of them has made."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    run = root / f"undisturbed-{command}"
    with run.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not run.exists():
            code, output = finish(fedagem(command, plan_path, "--out", run, *SETTINGS))
            assert code == 0, output
    return run


@pytest.fixture(scope="session")
def simulated(plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed `fedagem simulate`, to be left as it is."""
    return complete("simulate", plan_path, tmp_path_factory)


@pytest.fixture(scope="session")
def federated(plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed `fedagem run`, to be left as it is."""
    return complete("run", plan_path, tmp_path_factory)
