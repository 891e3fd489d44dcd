"""What a worker makes of runs that end well, fail, or are killed.

`run_job` is replaced here: what stands for it ends at once as a run could end. Real runs in real workers are in
tests/e2e/test_queue_of_runs.py.
"""

import json
import os
import signal
import threading
import time

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.errors import DataError, FedAGemError
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.runs.many_runs import Job
from fedagem.runs.processes import ProcessKilledError, RunBusyError
from fedagem.studies import worker
from fedagem.studies.leases import LeaseLostError, SignOfLife
from fedagem.studies.queue import Queue
from fedagem.studies.waiting import wait_for_runs
from tests.support.waiting import wait_for

LEASE_SECONDS = 4
"""Long enough for a loaded machine to renew it, and short enough to wait for."""


@pytest.fixture
def queue(tmp_path):
    (tmp_path / "queue.json").write_text(json.dumps({"lease_seconds": LEASE_SECONDS}))
    queue = Queue.create(tmp_path)
    plan = Plan.load(find_plan("rotated_digits"))
    queue.add([Job(f"run {n}", plan, plan.changed(seed=n), tmp_path / f"r{n}") for n in range(3)])
    return queue


def finish(job):
    job.directory.mkdir(exist_ok=True)
    (job.directory / "results.json").write_text(json.dumps({"rounds": job.plan.aggregator.rounds_to_train}))


@pytest.fixture
def runs_end(monkeypatch):
    """Lets every run end well, apart from some that end as a list of exceptions says, one for each attempt."""

    def install(**ends):
        def run_job(job, _, check):
            check()
            if pending := ends.get(job.directory.name):
                raise pending.pop(0)
            finish(job)

        monkeypatch.setattr(worker, "run_job", run_job)

    return install


def ends_of(queue, number):
    return [attempt.end for attempt in queue.runs()[number].attempts()]


@pytest.mark.parametrize("parallel", [1, 3])
def test_all_runs_are_completed(queue, runs_end, parallel):
    runs_end()
    worker.work(queue, parallel)
    assert all(run.finished for run in queue.runs())
    assert [ends_of(queue, n) for n in range(3)] == [["finished"]] * 3
    assert list(queue.workers.iterdir()) == []


def test_a_run_that_fails_is_written_down_and_not_tried_again_until_somebody_says_so(queue, runs_end, tmp_path):
    runs_end(r1=[FedAGemError("the loss is not finite.")])
    done = CliRunner().invoke(main, ["work", str(tmp_path), "--jobs", "1"])
    assert done.exit_code == 1
    assert "2 of 3 runs are finished, 1 have failed." in done.output
    assert "run 1: the loss is not finite." in done.output
    assert CliRunner().invoke(main, ["work", str(tmp_path)]).exit_code == 1
    assert ends_of(queue, 1) == ["failed"]
    with pytest.raises(FedAGemError, match=r"1 of 3 runs failed, run 1 first: the loss is not finite\.\n.* --retry"):
        wait_for_runs(queue, queue.runs(), lambda: None)
    done = CliRunner().invoke(main, ["work", str(tmp_path), "--retry"])
    assert done.exit_code == 0, done.output
    assert "1 runs that failed are tried again." in done.output
    assert ends_of(queue, 1) == ["failed", "retry", "finished"]


def test_a_run_that_was_killed_is_tried_again_but_not_for_ever(queue, runs_end):
    killed = "simulation was killed by SIGKILL"
    runs_end(r0=[ProcessKilledError(killed)], r2=[ProcessKilledError(killed) for _ in range(9)])
    worker.work(queue, 1)
    assert ends_of(queue, 0) == ["killed", "finished"]
    assert ends_of(queue, 2) == ["killed", "killed", "killed", "failed"]
    sentence = queue.runs()[2].attempts()[-1].sentence
    assert sentence.startswith("3 attempts in a row ended before a round was complete, the last by ")
    assert sentence.endswith(killed)


def test_what_this_machine_lacks_ends_the_worker_and_not_the_run(queue, runs_end, monkeypatch):
    def lacks(_):
        raise DataError("digits are not here.")

    runs_end()
    monkeypatch.setattr(worker, "fetch_missing", lacks)
    with pytest.raises(DataError, match="digits are not here"):
        worker.work(queue, 2)
    assert [ends_of(queue, n) for n in range(3)] == [[], [], []]


def test_what_a_dead_worker_has_left_running_on_this_machine_is_waited_for(queue, runs_end, monkeypatch):
    monkeypatch.setattr(worker, "_BUSY_SECONDS", 0.01)
    runs_end(r0=[RunBusyError("it is being run by another process.")] * 3)
    worker.work(queue, 1)
    assert ends_of(queue, 0) == ["finished"]


def test_a_worker_that_others_take_for_dead_stops_its_runs(queue, monkeypatch):
    def run_job(_, __, check):
        [sign] = queue.workers.iterdir()
        sign.unlink()
        while True:
            check()
            time.sleep(0.01)

    monkeypatch.setattr(worker, "run_job", run_job)
    with pytest.raises(LeaseLostError, match="go on with its runs"):
        worker.work(queue, 1)
    assert ends_of(queue, 0) == [None]


@pytest.mark.parametrize(("number", "end"), [(signal.SIGTERM, "released"), (signal.SIGUSR2, "killed")])
def test_a_worker_that_is_told_to_stop_gives_its_run_back_undisturbed_by_more_signals(queue, monkeypatch, number, end):
    """Slurm's signals reach every process of a task, and come more than once."""

    def run_job(_, __, check):
        os.kill(os.getpid(), number)
        try:
            while True:
                check()
                time.sleep(0.01)
        finally:
            for each in (signal.SIGTERM, signal.SIGUSR2):
                assert signal.getsignal(each) is signal.SIG_IGN
                os.kill(os.getpid(), each)

    monkeypatch.setattr(worker, "run_job", run_job)
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGUSR2)]
    with pytest.raises(KeyboardInterrupt):
        worker.work(queue, 1)
    assert ends_of(queue, 0) == [end]
    assert list(queue.workers.iterdir()) == []
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGUSR2)] == before


def test_a_worker_stands_by_and_goes_on_with_the_run_of_one_that_dies(queue, runs_end):
    runs_end()
    (queue.workers / "dead").parent.mkdir(exist_ok=True)
    (queue.workers / "dead").write_text("1\n")
    queue.runs()[1].begin([], "dead")
    worker.work(queue, 1)
    assert ends_of(queue, 1) == [None, "finished"]


def test_a_worker_that_need_not_stand_by_leaves_when_the_others_are_alive(queue, runs_end):
    runs_end()
    with SignOfLife(queue.workers, LEASE_SECONDS) as other:
        queue.runs()[1].begin([], other.worker)
        worker.work(queue, 1, stand_by=False)
        assert ends_of(queue, 1) == [None]
    (queue.workers / "dead").write_text("1\n")
    queue.runs()[1].begin(queue.runs()[1].attempts(), "dead")
    worker.work(queue, 1, stand_by=False)
    assert ends_of(queue, 1) == [None, None, "finished"], "of a worker that may be dead it waits for a sign"


def test_a_worker_that_waits_takes_runs_that_come_later(queue, runs_end, tmp_path):
    runs_end()
    plan = Plan.load(find_plan("rotated_digits"))

    def add_one_more_and_interrupt():
        wait_for(lambda: all(run.finished for run in Queue.open(tmp_path).runs()), 60)
        [late] = Queue.open(tmp_path).add([Job("late", plan, plan, tmp_path / "late")])
        wait_for(lambda: late.finished, 60)
        os.kill(os.getpid(), signal.SIGTERM)

    user = threading.Thread(target=add_one_more_and_interrupt)
    user.start()
    with pytest.raises(KeyboardInterrupt):
        worker.work(queue, 1, wait=True)
    user.join()
    assert len(queue.runs()) == 4


def test_nobody_waits_for_runs_that_nobody_will_complete(queue):
    with pytest.raises(FedAGemError, match="no task is left"):
        wait_for_runs(queue, queue.runs(), lambda: "no task is left.")


def test_who_waits_counts_the_runs_of_others(queue, runs_end, capsys):
    runs_end()
    runs = queue.runs()
    helper = threading.Thread(target=lambda: [finish(run.job) for run in runs])
    asked = iter([helper.start])

    def nobody_left():
        for start in asked:
            start()

    wait_for_runs(queue, runs, nobody_left)
    helper.join()
    assert "3 finished, 0 under way, 0 waiting, 0 failed" in capsys.readouterr().err
