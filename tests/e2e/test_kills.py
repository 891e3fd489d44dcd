"""SIGKILL at random moments: whoever is started again goes on as if nothing had happened."""

import random
import time

import psutil
import pytest

from chaos.processes import end
from tests.support.fx_federations import (
    PATIENCE,
    SETTINGS,
    assert_same_outcome,
    fedagem,
    finish,
    fresh_copy,
    fx,
    reached,
    wait_until,
)

MEMBERS = {
    "aggregator": ("aggregator", "start"),
    "client_1": ("collaborator", "start", "-n", "client_1"),
    "client_2": ("collaborator", "start", "-n", "client_2"),
}
KILLS = [(0, "client_1"), (1, "aggregator"), (3, "client_2"), (4, "aggregator"), (6, "client_1"), (7, "aggregator")]
"""Who is killed once something of a round has been aggregated."""


@pytest.mark.nightly
def test_kills_of_anybody_change_nothing(federated, tmp_path):
    """Each of them started from nothing; test_chaos.py is the short form."""
    run = fresh_copy(federated, tmp_path / "run")
    moments = random.Random()
    seed = moments.randrange(10**6)
    moments.seed(seed)
    processes = {name: fx(run, *command) for name, command in MEMBERS.items()}
    logs = []
    try:
        for round_number, victim in KILLS:
            wait_until(reached(run, round_number))
            time.sleep(moments.uniform(0, 0.6))
            processes[victim].kill()
            logs.append(finish(processes[victim])[1])
            processes[victim] = fx(run, *MEMBERS[victim])
        began = time.monotonic()
        for name, process in processes.items():
            code, output = finish(process, PATIENCE - (time.monotonic() - began))
            assert code == 0, (seed, name, output[-3000:])
    finally:
        end(*processes.values())
    assert_same_outcome(run, federated)


def test_a_run_that_loses_a_collaborator_and_then_its_command_ends_as_if_nothing_had_happened(
    plan_path, federated, tmp_path
):
    run = fresh_copy(federated, tmp_path / "run")
    command = ("run", plan_path, "--out", run, "--resume", *SETTINGS)
    first = fedagem(*command)
    try:
        wait_until(reached(run, 2), first)
        [victim] = [
            child
            for child in psutil.Process(first.pid).children()
            if child.cmdline()[-4:] == ["collaborator", "start", "-n", "client_2"]
        ]
        others = [child for child in psutil.Process(first.pid).children() if child != victim]
        victim.kill()
        code, output = finish(first)
    finally:
        end(first)
    assert code == 2
    assert "Error: client_2 was killed by SIGKILL; the end of" in output
    assert "client_2.log" in output
    assert "Traceback" not in output
    assert not any(child.is_running() for child in others), "nobody is left behind"

    second = fedagem(*command)
    try:
        wait_until(reached(run, 5), second)
        second.kill()  # only the command: what it has started must not work on beside what the next one starts
        code, output = finish(fedagem(*command))
        assert code == 0, output
    finally:
        end(second)
    assert_same_outcome(run, federated)
