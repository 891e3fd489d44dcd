"""GPM and FOT over mutual TLS: the numbers of one process, also if somebody is killed at the end of a task."""

import pytest

from chaos.outcome import rows_of
from chaos.processes import end
from tests.support.fx_federations import SETTINGS, assert_same_outcome, fedagem, finish, fresh_copy, fx, wait_until

SEQUENTIAL = [
    *("--set", "data_loader.settings.tasks.kind=sequential"),
    *("--set", "data_loader.settings.partition={kind: dirichlet, alpha: 1.0, scope: task}"),
]
CASES = {
    "fot": ["--set", "task_runner.settings.method=fot"],
    "fot of classes": ["--set", "task_runner.settings.method=fot", *SEQUENTIAL],
    "gpm": ["--set", "task_runner.settings.method=gpm"],
}
MEMBERS = {
    "aggregator": ("aggregator", "start"),
    "client_1": ("collaborator", "start", "-n", "client_1"),
    "client_2": ("collaborator", "start", "-n", "client_2"),
}

pytestmark = pytest.mark.nightly


def trained(run, round_number):
    """Whether a round has trained: if it is the last one of its task, the task ends now."""
    return lambda: any((row["round"], row["stage"]) == (round_number, "train") for row in rows_of(run))


@pytest.mark.parametrize("case", CASES)
def test_processes_give_the_numbers_of_one_also_if_they_are_killed(case, plan_path, tmp_path):
    settings = [*SETTINGS, *CASES[case]]
    for command in ("simulate", "run"):
        code, output = finish(fedagem(command, plan_path, "--out", tmp_path / command, *settings))
        assert code == 0, output
    assert_same_outcome(tmp_path / "run", tmp_path / "simulate")
    run = fresh_copy(tmp_path / "run", tmp_path / "killed")
    processes = {name: fx(run, *command) for name, command in MEMBERS.items()}
    try:
        for round_number, victim in ((1, "client_1"), (3, "aggregator"), (7, "client_2")):
            wait_until(trained(run, round_number))
            processes[victim].kill()
            finish(processes[victim])
            processes[victim] = fx(run, *MEMBERS[victim])
        for name, process in processes.items():
            code, output = finish(process)
            assert code == 0, (name, output[-3000:])
    finally:
        end(*processes.values())
    assert_same_outcome(run, tmp_path / "simulate")
