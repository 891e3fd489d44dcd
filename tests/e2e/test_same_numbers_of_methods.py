"""What a method exchanges and keeps goes over mutual TLS as in one process: the same numbers to the last bit."""

import pytest

from chaos.outcome import outcome
from tests.support.fx_federations import SETTINGS, assert_same_outcome, fedagem, finish, fresh_copy
from tests.support.in_process_simulation import simulate_in_process

SHORT = [*SETTINGS, "--rounds", "5"]
"""One round for each task."""


@pytest.mark.parametrize(
    "method", ["fedcurv", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("fedprox", "er", "derpp"))]
)
def test_a_simulation_and_a_federation_of_a_method_give_the_same(method, plan_path, tmp_path):
    federated = tmp_path / "federated"
    chosen = ("--set", f"task_runner.settings.method={method}")
    code, output = finish(fedagem("run", plan_path, "--out", federated, *SHORT, *chosen))
    assert code == 0, output
    simulated = fresh_copy(federated, tmp_path / "simulated")
    simulate_in_process(simulated)
    assert_same_outcome(federated, simulated)
    if method == "fedcurv":
        assert all(state["kept"] for state in outcome(federated)["states"].values())
