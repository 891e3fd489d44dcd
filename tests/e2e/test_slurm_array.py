"""`fedagem compare --slurm` on a real Slurm cluster of one node, whose tasks and controller do not live for ever."""

import json
import re

import pytest

from chaos.outcome import rows_of
from chaos.processes import end
from fedagem.studies.queue import Queue
from tests.support.fx_federations import SETTINGS, assert_same_outcome, fedagem, finish, reached, wait_until
from tests.support.slurm_cluster import SlurmCluster, missing_programs
from tests.support.waiting import wait_for

LEASE_SECONDS = 10
METHODS = ("--methods", "der+fedagem,fedavg")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"Slurm is not installed (no {', '.join(missing_programs())}): apt-get install --no-install-recommends "
        "slurmctld slurmd slurm-client munge",
    ),
]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="submitit is not installed: pip install 'fedagem[slurm]'")
    (tmp_path / "slurm").mkdir()
    with SlurmCluster(tmp_path / "slurm") as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        yield cluster


@pytest.fixture
def out(tmp_path):
    """The folder of a comparison whose queue finds dead workers soon."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "queue.json").write_text(json.dumps({"lease_seconds": LEASE_SECONDS}))
    return tmp_path / "out"


def seconds_of_round(run, number):
    return [row for row in rows_of(run) if row["round"] == number and row["metric"] == "seconds"]


def runs_of(out, command):
    """The runs, once they are laid out."""
    wait_until(lambda: len(list(out.rglob("job.json"))) == 2, command)
    return Queue.open(out).runs()


def check_outcome(runs, command, simulated):
    code, said = finish(command)
    assert code == 0, said
    assert "Task after task" in said
    assert all(run.finished for run in runs)
    assert_same_outcome(runs[0].directory, simulated)
    return said


def test_an_array_that_is_killed_and_requeued_goes_on_with_the_same_numbers(plan_path, simulated, cluster, out):
    """The whole array is requeued in the middle of its runs; before that, the controller is killed and comes back."""
    options = ("--slurm", "partition=main,cpus=1,time=30", "--array", "2")
    asked = ("compare", plan_path, *SETTINGS, *METHODS, "--out", out, *options)
    command = fedagem(*asked)
    try:
        runs = runs_of(out, command)
        wait_until(reached(runs[0].directory, 1), command)
        cluster.kill("slurmctld")
        cluster.start("slurmctld", "-D")
        wait_for(lambda: "RUNNING" in cluster.ask("squeue", "--noheader", "--format", "%T"), 120, cluster.said)
        wait_until(reached(runs[0].directory, 2), command)
        [array] = re.findall(r"submitted the array (\d+) with 2 tasks", command.said())
        before = seconds_of_round(runs[0].directory, 1)
        cluster.ask("scontrol", "requeue", array)
        said = check_outcome(runs, command, simulated)
    finally:
        end(command)
    first, *_, last = runs[0].attempts()
    assert first.end in {"released", "killed"}, "it was told to stop and has obeyed"
    assert (last.end, last.rounds >= 2) == ("finished", True)
    assert before
    assert seconds_of_round(runs[0].directory, 1) == before, "what was done is not done again"
    logs = sorted((out / "slurm").glob(f"{array}_*_log.out"))
    assert len(logs) == 2
    assert f"their logs: {out / 'slurm'}" in said
    assert "der+fedagem, seed 0: continued after round" in "".join(path.read_text() for path in logs)
    code, again = finish(fedagem(*asked))
    assert code == 0, again
    assert "submitted" not in again, "nothing is left to do"


def test_a_task_whose_time_is_over_is_requeued_and_goes_on(plan_path, cluster, out):
    """Slurm tells a task to stop a minute and a half before its end; who asks again meanwhile meets the same array."""
    options = ("--slurm", "time=4", "--array", "1")
    asked = ("compare", plan_path, *SETTINGS, *METHODS, "--out", out, *options, "--rounds", "200")
    command = fedagem(*asked)
    try:
        runs = runs_of(out, command)
        requeued = ("squeue", "--noheader", "--Format", "RestartCnt")
        wait_until(lambda: cluster.ask(*requeued).strip() not in {"", "0"}, command)
        second = fedagem(*asked)
        wait_until(lambda: "1 tasks are at work already" in second.said(), second)
        end(second)
        ended = runs[0].attempts()[0]
        assert ended.end == "killed"
        wait_until(lambda: runs[0].attempts()[-1].number > 1, command)
        continued = runs[0].attempts()[-1]
        assert continued.rounds > ended.rounds == 0
    finally:
        end(command)


def test_an_array_that_is_cancelled_ends_the_waiting_with_a_sentence(plan_path, cluster, out):
    asked = ("compare", plan_path, *SETTINGS, *METHODS, "--out", out, "--slurm", "time=10", "--array", "2")
    command = fedagem(*asked)
    try:
        runs = runs_of(out, command)
        wait_until(reached(runs[0].directory, 0), command)
        cluster.ask("scancel", "--name", "fedagem")
        code, said = finish(command)
    finally:
        end(command)
    assert code == 2
    assert "Error: runs are unfinished, but no task of the array is left: see the logs in" in said
    assert "Traceback" not in said
    assert [run.attempts()[-1].end for run in runs if run.attempts()] == ["released"] * 2


@pytest.mark.parametrize("option", ["partition=nowhere", "gpus=4"])
def test_what_sbatch_refuses_is_said_in_its_words(plan_path, cluster, out, option):
    asked = ("compare", plan_path, *SETTINGS, *METHODS, "--out", out, "--slurm", f"time=10,{option}")
    code, said = finish(fedagem(*asked))
    assert code == 2
    assert "Error: sbatch has refused the array: sbatch: error: " in said
    assert "Traceback" not in said
