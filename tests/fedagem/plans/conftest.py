"""Plans that tests start from: loading one takes a while, and none can be changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedagem.plans.plan import Plan

Written = Callable[[dict[str, Any]], Path]


@pytest.fixture(scope="session")
def digits_path(repository: Path) -> Path:
    """The file of the smallest benchmark."""
    return repository / "plan" / "rotated_digits.yaml"


@pytest.fixture(scope="session")
def digits(digits_path: Path) -> Plan:
    """The smallest benchmark."""
    return Plan.load(digits_path)


@pytest.fixture(scope="session")
def demo(repository: Path) -> Plan:
    """The smallest drive."""
    return Plan.load(repository / "plan" / "carla_demo.yaml")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a plan as a user would, to be loaded."""

    def write(document: dict[str, Any]) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    return write
