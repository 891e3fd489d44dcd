"""A queue in a shared folder: what it holds, what it refuses, and who may take what."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fedagem.errors import FedAGemError
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.runs.many_runs import Job
from fedagem.studies.leases import SignOfLife
from fedagem.studies.queue import Overview, Queue, in_vain


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.load(find_plan("rotated_digits"))


@pytest.fixture
def jobs(plan: Plan, tmp_path: Path) -> list[Job]:
    return [Job(f"seed {seed}", plan, plan.changed(seed=seed), tmp_path / f"b{9 - seed}") for seed in range(3)]


@pytest.fixture
def queue(jobs: list[Job], tmp_path: Path) -> Queue:
    queue = Queue.create(tmp_path)
    queue.add(jobs)
    return queue


def finish(job: Job) -> None:
    job.directory.mkdir()
    (job.directory / "results.json").write_text(json.dumps({"rounds": job.plan.aggregator.rounds_to_train}))


def test_another_machine_finds_the_same_runs_in_the_same_order(queue, jobs, tmp_path):
    found = Queue.open(tmp_path).runs()
    assert [run.job for run in found] == jobs
    assert [run.job.plan.seed for run in found] == [0, 1, 2]
    assert [run.job.plan.name for run in found] == ["rotated_digits"] * 3


def test_the_folder_may_have_another_place_on_another_machine(queue, tmp_path):
    mount = tmp_path.with_name(f"{tmp_path.name}-mount")
    tmp_path.rename(mount)
    try:
        assert [run.directory for run in Queue.open(mount).runs()] == [mount / f"b{n}" for n in (9, 8, 7)]
    finally:
        mount.rename(tmp_path)


def test_runs_that_are_there_are_not_added_again_and_may_come_from_several_commands_at_once(queue, jobs, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    with ThreadPoolExecutor(4) as pool:
        for added in pool.map(lambda _: Queue.create(tmp_path).add(jobs), range(8)):
            assert [run.job for run in added] == jobs
    assert sorted(tmp_path.rglob("*")) == before


def test_other_settings_under_the_same_name_are_refused(queue, jobs, plan):
    other = plan.changed({"task_runner.settings.optimizer.lr": 0.3})
    with pytest.raises(FedAGemError, match="has a run b9 of another plan or other settings"):
        queue.add([replace(jobs[0], requested=other, plan=other)])


def test_what_an_interrupted_command_has_left_is_not_taken_for_the_plan_of_the_next_one(queue, jobs, plan, tmp_path):
    other = plan.changed({"task_runner.settings.optimizer.lr": 0.3})
    (tmp_path / "queue" / "b9" / "job.json").unlink()
    queue = Queue.open(tmp_path)
    [run] = queue.add([replace(jobs[0], requested=other, plan=other)])
    assert run.job.requested == run.job.plan == other


def test_a_folder_without_a_queue_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FedAGemError, match=r"is no queue, there is no queue\.json in it: make one with `fedagem"):
            Queue.open(folder)
    (tmp_path / "file").touch()
    with pytest.raises(FedAGemError, match="is no queue"):
        Queue.open(tmp_path / "file")
    with pytest.raises(FedAGemError, match="is a file: name a folder for the queue"):
        Queue.create(tmp_path / "file")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '{"learning_version": 0}',
            r"was made for version 0 of the code that learns, and this is version \d+: use the",
        ),
        ('{"lease_seconds": 0}', r"queue.json.lease_seconds must be positive, not 0"),
        ('{"lease_second": 5}', r"has no setting 'lease_second'; did you mean lease_seconds"),
        ('{"lease', r"queue.json cannot be read"),
    ],
)
def test_a_queue_of_another_version_or_with_mistakes_is_refused(content, sentence, tmp_path):
    (tmp_path / "queue.json").write_text(content)
    for opened in (Queue.open, Queue.create):
        with pytest.raises(FedAGemError, match=sentence):
            opened(tmp_path)


def test_the_way_of_a_run(queue):
    run = queue.runs()[0]
    overview = Overview(queue)
    with SignOfLife(queue.workers, 60) as worker:
        assert overview.standing(run).state == "free"
        attempt = run.begin([], worker.worker)
        assert overview.standing(run).state == "held"
        assert run.begin([], "somebody else") is None, "who has not seen the first attempt cannot make another one"
        run.end(attempt, "released")
        standing = overview.standing(run)
        assert standing.state == "free"
        assert run.begin(standing.attempts, worker.worker).number == 2
    assert overview.standing(run).state == "free", "a worker that is gone holds nothing"
    again = run.begin(run.attempts(), "w")
    run.end(again, "failed", "it went wrong.")
    assert overview.standing(run).state == "failed"
    assert overview.standing(run).attempts[-1].sentence == "it went wrong."
    assert (queue.retry_failed(queue.runs()), queue.retry_failed(queue.runs())) == (1, 0)
    assert overview.standing(run).state == "free"
    finish(run.job)
    assert overview.standing(run).state == "finished", "the results decide, whoever has made them"


def test_a_run_whose_results_were_removed_is_free_again(queue):
    run = queue.runs()[0]
    run.end(run.begin([], "w"), "finished")
    assert Overview(queue).standing(run).state == "free"


def test_one_of_many_workers_takes_a_run(queue, tmp_path):
    def take(number):
        run = Queue.open(tmp_path).runs()[1]
        return run.begin(run.attempts()[:0], f"worker-{number}")

    with ThreadPoolExecutor(8) as pool:
        taken = [attempt for attempt in pool.map(take, range(16)) if attempt is not None]
    assert len(taken) == 1
    assert queue.runs()[1].attempts() == taken


def test_attempts_that_never_complete_a_round_are_in_vain(queue):
    run = queue.runs()[0]
    for _ in range(2):
        run.end(run.begin(run.attempts(), "w"), "killed")
    assert not in_vain(run.attempts(), 0)
    run.begin(run.attempts(), "dies without a word")
    assert in_vain(run.attempts(), 0)
    assert not in_vain(run.attempts(), 1), "a round was completed since"
    run.end(run.begin(run.attempts(), "w"), "released")
    assert not in_vain(run.attempts(), 0), "who was stopped in good order has done nothing in vain"
