"""Methods with teachers and ends of tasks: the same to the last bit in one process, over workers and over TLS."""

import pytest

from tests.support.fx_federations import assert_same_outcome, fedagem, finish
from tests.support.method_federation import CHANGES, ROUNDS

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("method", ["icarl", "glfc", "cfed"])
def test_a_simulation_and_a_federation_give_the_same(plan_path, tmp_path, method):
    chosen = {**CHANGES, "task_runner.settings.method": method}
    settings = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    commands = {"simulated": ("simulate",), "spread": ("simulate", "--workers", "2"), "federated": ("run",)}
    for name, (command, *options) in commands.items():
        process = fedagem(command, plan_path, "--out", tmp_path / name, "--rounds", str(ROUNDS), *options, *settings)
        code, output = finish(process)
        assert code == 0, output
    assert_same_outcome(tmp_path / "federated", tmp_path / "simulated")
    assert_same_outcome(tmp_path / "spread", tmp_path / "simulated")
