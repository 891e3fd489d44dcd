"""Two undisturbed runs of one plan, one in a single process and one as a federation, that everything is held to."""

from pathlib import Path

import pytest

from tests.e2e.federations import SETTINGS, fedagem, finish


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes on a loaded machine take their time."""
    for item in items:
        if "/e2e/" in str(item.path):
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def plan_path(repository: Path) -> Path:
    return repository / "plan" / "rotated_digits.yaml"


def complete(command: str, plan_path: Path, out: Path) -> Path:
    code, output = finish(fedagem(command, plan_path, "--out", out, *SETTINGS))
    assert code == 0, output
    return out


@pytest.fixture(scope="session")
def simulated(plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed `fedagem simulate`."""
    return complete("simulate", plan_path, tmp_path_factory.mktemp("runs") / "simulated")


@pytest.fixture(scope="session")
def federated(plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed `fedagem run`."""
    return complete("run", plan_path, tmp_path_factory.mktemp("runs") / "federated")
