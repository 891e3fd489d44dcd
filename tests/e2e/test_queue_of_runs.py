"""`fedagem work` with real runs: workers come and go, one is killed, and the numbers are those of one machine."""

import json
import signal

import pytest

from chaos.outcome import rows_of
from chaos.processes import Process, end
from fedagem.studies.queue import Queue
from tests.support.fx_federations import SETTINGS, assert_same_outcome, fedagem, finish, reached, wait_until

LEASE_SECONDS = 10
"""Long enough for a loaded machine to renew it, and short enough to wait for."""


@pytest.fixture
def folder(tmp_path):
    """A shared folder whose queue finds dead workers soon."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "queue.json").write_text(json.dumps({"lease_seconds": LEASE_SECONDS}))
    return tmp_path / "shared"


def seconds_of_round(run, number):
    """How long the stages of a round took: no two rounds take equally long to the last digit."""
    return [row for row in rows_of(run) if row["round"] == number and row["metric"] == "seconds"]


@pytest.mark.nightly
def test_a_worker_is_killed_and_another_one_goes_on(plan_path, simulated, folder):
    """Only the worker itself is killed, by the one signal that it cannot hear."""
    question = fedagem("compare", plan_path, *SETTINGS, "--methods", "der+fedagem,fedavg", "--queue", folder)
    workers: list[Process] = []
    try:
        wait_until(lambda: len(list(folder.rglob("job.json"))) == 2, question)
        queue = Queue.open(folder)
        first, second = queue.runs()
        workers += [fedagem("work", folder, "--jobs", "1"), fedagem("work", folder, "--jobs", "1")]
        wait_until(reached(first.directory, 3), question)
        [victim, heir] = sorted(workers, key=lambda worker: f"-{worker.pid}-" not in first.attempts()[0].worker)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        before = seconds_of_round(first.directory, 1)
        code, said = finish(heir)
        assert code == 0, said
        assert "2 of 2 runs are finished, 0 have failed." in said
        code, said = finish(question)
        assert code == 0, said
    finally:
        end(question, *workers)
    lost, taken_over = first.attempts()
    assert (lost.end, taken_over.end) == (None, "finished")
    assert taken_over.rounds >= 2
    assert [attempt.end for attempt in second.attempts()] == ["finished"]
    assert taken_over.worker == second.attempts()[0].worker != lost.worker
    assert list(queue.workers.iterdir()) == [], "whoever takes over removes the dead"
    assert before
    assert seconds_of_round(first.directory, 1) == before, "what was done is not done again"
    assert_same_outcome(first.directory, simulated)
    summary = json.loads((folder / "rotated_digits-comparison" / "comparison.json").read_text())
    [accuracy] = summary["tasks"]["der + Fed-A-GEM"]["domain_il"]["accuracy"]
    assert accuracy == json.loads((simulated / "results.json").read_text())["accuracy"]["domain_il"]


def test_a_run_that_fails_is_told_to_who_waits_and_its_worker_goes_on(plan_path, folder):
    """Of two learning rates one makes the loss infinite."""
    sweep = ("--sweep", "task_runner.settings.optimizer.lr=1.0e+30,0.05")
    asked = ("compare", plan_path, *SETTINGS, "--methods", "fedavg", "--queue", folder, *sweep)
    question = fedagem(*asked)
    worker = None
    try:
        wait_until(lambda: len(list(folder.rglob("job.json"))) == 2, question)
        worker = fedagem("work", folder, "--jobs", "2")
        code, said = finish(worker)
        assert code == 1
        assert "1 of 2 runs are finished, 1 have failed." in said
        code, said = finish(question)
    finally:
        end(question, *([worker] if worker else []))
    assert code == 2
    assert "Error: 1 of 2 runs failed, fedavg, lr=1.0e+30, seed 0 first: simulation ended with exit code" in said
    assert "run the same command with --retry to try again" in said
    assert "Traceback" not in said
    bad, good = Queue.open(folder).runs()
    assert [attempt.end for attempt in bad.attempts()] == ["failed"]
    assert good.finished
    code, again = finish(fedagem(*asked))
    assert code == 2, "asked again, it says the same without a worker"
    assert "1 of 2 runs failed" in again
