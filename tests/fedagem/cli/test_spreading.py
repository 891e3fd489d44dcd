"""Where runs go and what contradicts that, for `fedagem reproduce` and `fedagem compare` alike."""

import csv
import json
from typing import Any

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.plans.driving import DrivingSettings
from fedagem.runs.folder import create_run
from fedagem.studies.queue import Queue
from tests.support.finished_runs import digits_rows

COMMANDS = [("compare", "rotated_digits"), ("reproduce", "rotated-mnist")]
SHORT = ["--set", "data_loader.settings.rounds_per_task=2", "--set", "data_loader.settings.tasks.count=2"]


def ask(*words, code=2):
    done = CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.split())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--array", "4"], "--array is for --slurm"),
        (["--retry"], "--retry is for --queue and --slurm"),
        (["--queue", "q", "--jobs", "3"], "--jobs 3 is for runs on this machine alone: give it to `fedagem work`"),
        (["--queue", "q", "--out", "o"], "--out o and --queue exclude each other"),
        (["--slurm", "partition=gpu"], "--slurm needs the time limit of a task"),
        (["--slurm", "time=10,nodez=2"], "--slurm has no setting 'nodez'"),
        (["--sweep", "task_runner.settings.optimizer.lr"], "--sweep takes path.in.plan=value,value"),
        (["--sweep", "task_runner.settings.method=der,agem"], "--sweep task_runner.settings.method=der"),
        (["--sweep", "data_loader.settings.seed=1,2"], "--seeds"),
    ],
)
def test_options_that_contradict_each_other_or_would_be_ignored_are_refused(command, options, sentence, tmp_path):
    assert sentence in ask(*command, *options)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_not_there_is_refused_before_anything_is_laid_out(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "sbatch is not here" in ask("compare", "rotated_digits", "--slurm", "time=10")
    assert list(tmp_path.iterdir()) == []


def test_work_refuses_what_is_no_queue(tmp_path):
    assert f"{tmp_path} is no queue, there is no queue.json in it" in ask("work", tmp_path)


def finish_as_a_worker_would(folder):
    for run in Queue.open(folder).runs():
        create_run(run.directory, run.job.requested)
        lines = [json.dumps(row) for row in digits_rows()]
        (run.directory / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (run.directory / "results.json").write_text(json.dumps({"rounds": 4}))


def test_the_results_of_a_sweep_on_a_queue_are_put_together(tmp_path, monkeypatch):
    """Nobody works here: the runs' results are written by hand once the queue is there."""
    monkeypatch.setattr(
        "fedagem.studies.waiting.wait_for_runs", lambda queue, runs, nobody: finish_as_a_worker_would(queue.folder)
    )
    lr = "task_runner.settings.optimizer.lr"
    words = ["compare", "rotated_digits", *SHORT, "--methods", "fedavg,der", "--sweep", f"{lr}=0.1,0.2"]
    said = ask(*words, "--queue", "q", code=0)
    assert "4 of 4 runs are to be done in" in said
    out = tmp_path / "q" / "rotated_digits-comparison"
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == [
        f"{method}-lr={value}-seed0" for method in ("der", "fedavg") for value in (0.1, 0.2)
    ]
    for label in ("lr=0.1: fedavg", "lr=0.1: der", "lr=0.2: fedavg", "lr=0.2: der"):
        assert f"{label} " in said
    with (out / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == "accuracy"]
    found = {(row[lr], row["method"]) for row in rows}
    assert found == {(value, method) for value in ("0.1", "0.2") for method in ("fedavg", "der")}
    assert list(json.loads((out / "comparison.json").read_text())) == ["lr=0.1", "lr=0.2"]
    assert (out / "report-lr=0.1.html").exists()
    assert (out / "comparison-lr=0.2.png").exists()
    refused = ask(*words, "--queue", "q", "--set", "data_loader.settings.epochs=3")
    assert "requested.yaml is not the plan you gave" in refused


def test_who_stops_waiting_is_told_that_the_workers_go_on(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedagem.studies.waiting.wait_for_runs", interrupt)
    said = ask("compare", "rotated_digits", "--queue", "q", code=130)
    assert "This command only waited: the workers go on. Run it again to see the results." in said


def test_a_drive_is_recorded_where_every_machine_sees_it(monkeypatch, tmp_path):
    """Nothing is driven here: what would be recorded, and what the runs would replay, is looked at instead."""
    recorded: list[Any] = []
    monkeypatch.setattr("fedagem.runs.preparation.record_drives", recorded.extend)
    monkeypatch.setattr("fedagem.runs.preparation.run_jobs", lambda jobs, parallel: recorded.extend(jobs))
    monkeypatch.setattr("fedagem.studies.waiting.wait_for_runs", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    ask("compare", "carla_demo", "--methods", "fedavg", "--queue", "q", code=130)
    *drives, warm_up = recorded
    assert len(drives) == 3
    for drive in drives:
        assert drive.place.is_relative_to(tmp_path / "q" / "snippets")
    assert warm_up.directory.is_relative_to(tmp_path / "q")
    [run] = Queue.open(tmp_path / "q").runs()
    data = run.job.plan.data
    assert isinstance(data, DrivingSettings)
    assert data.stream is None
    assert str(run.job.plan.training.initial_model).startswith(str(tmp_path / "q"))
    for legs in data.snippets.values():
        assert all(path.startswith(str(tmp_path / "q")) for leg in legs for path in leg.paths)
    assert "names" in ask("work", "q"), "a machine that does not see the frames refuses the run"
    assert run.attempts() == []
    recorded.clear()
    here = f"driving.snippets={tmp_path / 'mine'}"
    ask("compare", "carla_demo", "--methods", "fedavg", "--queue", "other", "--set", here, code=130)
    assert all(drive.place.is_relative_to(tmp_path / "mine") for drive in recorded[:3]), "what was asked for stays"
