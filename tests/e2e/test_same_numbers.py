"""One process or many over mutual TLS, stopped and resumed or not: the same numbers to the last bit."""

import json
import os
import signal

from chaos.outcome import rows_of
from chaos.processes import end
from tests.support.fx_federations import ROUNDS, SETTINGS, assert_same_outcome, fedagem, finish, reached, wait_until


def test_a_simulation_and_a_federation_give_the_same(simulated, federated):
    assert_same_outcome(federated, simulated)
    ours, theirs = (json.loads((run / "results.json").read_text()) for run in (federated, simulated))
    for key in ("plan", "method", "fedagem", "seed", "rounds", "clients", "accuracy_matrix", "accuracy", "forgetting"):
        assert ours[key] == theirs[key], key
    assert ours["rounds"] == ROUNDS
    assert len(ours["accuracy_matrix"]["domain_il"]) == 6


def test_the_same_bytes_go_over_the_wire_as_in_a_simulation(simulated, federated):
    """What is not fetched twice in one is not fetched twice in the other."""

    def uploads(run):
        return [row for row in rows_of(run) if row["metric"] == "bytes_up"]

    assert uploads(federated) == uploads(simulated)


def test_ctrl_c_leaves_a_simulation_that_can_be_resumed(plan_path, simulated, tmp_path):
    run = tmp_path / "run"
    process = fedagem("simulate", plan_path, "--out", run, *SETTINGS)
    try:
        wait_until(reached(run, 2), process)
        os.killpg(process.pid, signal.SIGINT)
        code, output = finish(process)
    finally:
        end(process)
    assert code == 130
    assert "Interrupted; progress is saved. Resume with: fedagem simulate" in output
    assert "Traceback" not in output
    assert not (run / "save" / "last.pbuf").exists(), "it was still under way"
    code, output = finish(fedagem("simulate", plan_path, "--out", run, "--resume", *SETTINGS))
    assert code == 0, output
    assert_same_outcome(run, simulated)
