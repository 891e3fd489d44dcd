"""SIGKILL at random moments: whoever is started again goes on as if nothing had happened."""

import random
import time

from tests.support.fx_federations import (
    PATIENCE,
    SETTINGS,
    assert_same_outcome,
    end,
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


def test_kills_of_anybody_change_nothing(federated, tmp_path):
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


def test_a_run_whose_command_is_killed_goes_on_as_if_nothing_had_happened(plan_path, federated, tmp_path):
    """Only the command: what it has started must not work on beside what the next one starts."""
    run = fresh_copy(federated, tmp_path / "run")
    command = ("run", plan_path, "--out", run, "--resume", *SETTINGS)
    first = fedagem(*command)
    try:
        wait_until(reached(run, 3), first)
        first.kill()
        code, output = finish(fedagem(*command))
        assert code == 0, output
    finally:
        end(first)
    assert_same_outcome(run, federated)
