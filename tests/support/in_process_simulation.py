"""A simulation without a process of its own, whose imports cost more than a small run."""

from pathlib import Path

import pytest
from openfl.federated import Plan

from src.simulate import build_federation, run_rounds


def simulate_in_process(directory: Path) -> None:
    """Run what is laid out in a folder, or go on with it, one client after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        plan = Plan.parse(*(directory / "plan" / f"{name}.yaml" for name in ("plan", "cols", "data")))
        run_rounds(*build_federation(plan))
