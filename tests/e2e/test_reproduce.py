"""`fedagem reproduce` with real simulations: tables and pictures come out, and a stopped study goes on."""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import date

import pytest
import yaml
from click.testing import CliRunner

from chaos.processes import end
from fedagem.cli import reproduce
from fedagem.errors import FedAGemError
from fedagem.files import Lock
from fedagem.plans.workspace import plan_folder
from fedagem.runs.many_runs import run_jobs
from fedagem.studies.estimate import Estimator
from fedagem.studies.queue import Queue
from fedagem.studies.runs import runs_of
from fedagem.studies.study import load_study, study_names
from tests.support.fx_federations import fedagem, finish
from tests.support.waiting import wait_for

SCALES = {
    "rotated_digits": {
        "paper": {},
        "smoke": {
            "rounds_per_task": 1,
            "set": {
                "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
                "data_loader.settings.tasks.count": 3,
                "data_loader.settings.samples_per_client": 40,
                "data_loader.settings.test_samples": 40,
            },
        },
    }
}
TINY = {
    "title": "A tiny study",
    "paper": "Table 0",
    "parts": [
        {
            "plan": "rotated_digits",
            "metrics": ["accuracy.domain_il", "refined_share"],
            "rows": [{"label": "FL", "without": ["68.02±3.1", None], "with": ["79.46±4.1", None]}],
        }
    ],
}


@pytest.fixture(scope="module")
def folder(repository, tmp_path_factory):
    """A plan folder with one study of two short runs."""
    folder = tmp_path_factory.mktemp("plans")
    for name in ("base.yaml", "rotated_digits.yaml"):
        shutil.copy(repository / "plan" / name, folder)
    (folder / "studies").mkdir()
    (folder / "scales.yaml").write_text(yaml.safe_dump(SCALES))
    (folder / "studies" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return folder


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The study, run once from beginning to end by the command."""
    out = tmp_path_factory.mktemp("studies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
        arguments = ["tiny", "--seeds", "1", "--jobs", "2", "--out", str(out)]
        result = CliRunner().invoke(reproduce.command, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return out, result.output


def facts(directory):
    """What a run measured, apart from time and traffic: a client that starts again fetches the model again."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if "seconds" not in row["metric"] and "bytes" not in row["metric"]]


def seconds_of_round_0(directory):
    """How long the stages of the first round took: no two rounds take equally long to the last digit."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines()[:-1])
    return [row for row in rows if row["round"] == 0 and row["metric"] == "seconds"]


def test_the_table_shows_what_the_runs_measured(finished):
    out, shown = finished
    results = {r["fedagem"]: r for r in (json.loads(p.read_text()) for p in out.glob("runs/*/results.json"))}
    assert set(results) == {False, True}
    with (out / "tiny-smoke" / "table.csv").open() as file:
        accuracy, refined = csv.DictReader(file)
    assert float(accuracy["ours_with"]) == pytest.approx(100 * results[True]["accuracy"]["domain_il"])
    assert float(accuracy["ours_without"]) == pytest.approx(100 * results[False]["accuracy"]["domain_il"])
    assert float(refined["ours_without"]) == 0 < float(refined["ours_with"])
    assert f"{float(accuracy['ours_with']):.2f}" in shown
    assert "79.46±4.1" in shown


def test_markdown_latex_and_pictures_are_written(finished):
    out, _ = finished
    report = (out / "tiny-smoke" / "report.md").read_text()
    assert "`fedagem reproduce tiny --scale smoke --seeds 1`" in report
    assert "network SmallCNN, 5 clients, 3 tasks, 1 rounds for each, E = 1, learning rate 0.05" in report
    assert "![rotated_digits-domain_il-progress](rotated_digits-domain_il-progress.png)" in report
    assert r"\toprule" in (out / "tiny-smoke" / "table.tex").read_text()
    assert (out / "tiny-smoke" / "rotated_digits-domain_il-progress.png").stat().st_size > 5000


def test_the_report_says_what_fedagem_costs(finished):
    out, _ = finished
    with (out / "tiny-smoke" / "costs.csv").open() as file:
        without, refined = csv.DictReader(file)
    assert float(refined["bytes_up"]) > 1.5 * float(without["bytes_up"]), "a gradient beside every model"
    assert float(without["client_bytes"]) == 0
    assert float(refined["client_bytes"]) > 1000, "its buffer"
    assert "## What it cost" in (out / "tiny-smoke" / "report.md").read_text()


def test_finished_runs_are_not_run_again(finished, folder, monkeypatch):
    out, _ = finished
    monkeypatch.setattr("fedagem.runs.many_runs.ProcessGroup", lambda *_: pytest.fail("ran again"))
    run_jobs([run.job() for run in runs_of(load_study(folder, "tiny"), "smoke", 1, folder, out)], parallel=1)


@pytest.fixture
def stop(folder, tmp_path):
    """Starts the study or goes on with it, and stops it as soon as a run has come past its first round."""
    script = (
        "import pathlib, sys; from fedagem.cli import reproduce; from fedagem.plans import workspace; "
        "folder = pathlib.Path(sys.argv.pop()); workspace.plan_folder = lambda: folder; reproduce.command()"
    )
    arguments = ["tiny", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path), str(folder)]

    def stop(run, how):
        study = subprocess.Popen(
            [sys.executable, "-c", script, *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
        )

        def under_way():
            assert study.poll() is None, study.communicate()[1]
            return (run.directory / "save" / "checkpoint.state").exists()

        wait_for(under_way, 200)
        os.killpg(study.pid, how) if how == signal.SIGKILL else study.send_signal(how)
        said = study.communicate(timeout=100)[1]
        with Lock(run.directory / "run.lock") as lock:
            lock.take(wait=True)  # what was killed with it may need a moment to be gone
        assert not run.finished, "it was still under way"
        return study.returncode, said

    return stop


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.nightly)])
def test_a_stopped_study_goes_on_with_the_same_numbers(finished, folder, tmp_path, stop, how):
    """Stopped in its first run, which continues from its last round."""
    reference, _ = finished
    first, *_ = runs = runs_of(load_study(folder, "tiny"), "smoke", 1, folder, tmp_path)
    code, said = stop(first, how)
    if how == signal.SIGINT:
        assert code == 130
        assert "Interrupted; 0 of 2 runs are finished. Run the same command again to resume." in said
    before = seconds_of_round_0(first.directory)
    assert before
    run_jobs([run.job() for run in runs], parallel=2)
    assert seconds_of_round_0(first.directory) == before, "what was done is not done again"
    for run in runs:
        assert facts(run.directory) == facts(reference / "runs" / run.directory.name)


@pytest.mark.nightly
def test_a_sweep_on_a_queue_gives_the_numbers_of_one_machine(finished, folder, tmp_path, monkeypatch):
    """One of the swept values is the plan's own, so its runs must be those of the study without a sweep."""
    reference, _ = finished
    lr = "task_runner.settings.optimizer.lr"
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    Queue.create(tmp_path)
    worker = fedagem("work", tmp_path, "--wait", "--jobs", "2")
    try:
        arguments = ["tiny", "--seeds", "1", "--sweep", f"{lr}=0.05,0.1", "--queue", str(tmp_path)]
        result = CliRunner().invoke(reproduce.command, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        worker.terminate()
        code, said = finish(worker)
    finally:
        end(worker)
    assert code == 130
    assert "Interrupted; progress is saved, and other workers go on with these runs." in said
    tables = []
    for out in (reference / "tiny-smoke", tmp_path / "tiny-smoke-by-lr"):
        with (out / "table.csv").open() as file:
            tables.append(list(csv.DictReader(file)))
    alone, swept = tables
    assert [row["row"] for row in swept] == ["lr=0.05: FL"] * 2 + ["lr=0.1: FL"] * 2
    for plain, row in zip(alone, swept[:2], strict=True):
        assert {**row, "row": "FL"} == plain
    assert swept[2]["ours_with"] != alone[0]["ours_with"]
    [same] = tmp_path.glob("runs/rotated_digits-fedavg+fedagem-lr=0.05-*-seed0")
    [plain] = reference.glob("runs/rotated_digits-fedavg+fedagem-*-seed0")
    assert facts(same) == facts(plain)
    with (tmp_path / "tiny-smoke-by-lr" / "results.csv").open() as file:
        numbers = {(row[lr], row["fedagem"]): row["value"] for row in csv.DictReader(file) if row["name"] == "accuracy"}
    assert numbers.keys() == {("0.05", "False"), ("0.05", "True"), ("0.1", "False"), ("0.1", "True")}
    assert 100 * float(numbers["0.05", "True"]) == float(alone[0]["ours_with"])
    assert "`rotated_digits` at lr=0.1: network" in (tmp_path / "tiny-smoke-by-lr" / "report.md").read_text()


def test_a_run_that_cannot_start_ends_the_study_in_one_sentence(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    settings = ["data_loader.settings.dataset=image_folder", f"data_loader.settings.root={tmp_path}"]
    options = [part for setting in settings for part in ("--set", setting)]
    arguments = ["tiny", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out"), *options]
    result = CliRunner().invoke(reproduce.command, arguments)
    assert result.exit_code == 2
    assert "train does not exist: put images there" in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists(), "no run is laid out for data that is not there"


def test_a_file_is_no_place_for_a_study(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    (tmp_path / "out").write_text("mine")
    result = CliRunner().invoke(reproduce.command, ["tiny", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "out is a file: name a folder for the runs and tables" in " ".join(result.output.split())


def test_without_a_study_the_command_names_them():
    result = CliRunner().invoke(reproduce.command, [])
    assert result.exit_code == 2
    assert "rotated-mnist" in result.output


def list_studies(out, *options):
    arguments = ["--list", "--out", str(out), *options]
    result = CliRunner().invoke(reproduce.command, arguments, env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    return result.output


def test_the_list_says_which_studies_were_run_and_how_they_ended(finished, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    monkeypatch.setattr(Estimator, "seconds", lambda *_: pytest.fail("nobody asked for an estimate"))
    out, _ = finished
    today = date.today().isoformat()
    shown = list_studies(out)
    assert f"tiny digits smoke: finished {today}, 1 seed" in " ".join(shown.split())
    assert re.search(r"^  Table 0 *$", shown, re.MULTILINE)
    assert re.search(r"^tiny +digits +not run *$", list_studies(tmp_path), re.MULTILINE)


def test_the_list_tells_interrupted_failed_and_killed_studies_apart(finished, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    out, _ = finished
    one_finished = tmp_path / "runs" / next((out / "runs").iterdir()).name
    shutil.copytree(out / "runs" / one_finished.name, one_finished)
    arguments = ["tiny", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    for problem, code, wanted in (
        (KeyboardInterrupt(), 130, "smoke: interrupted"),
        (FedAGemError("the disk is full."), 2, "smoke: failed"),
        (SystemExit(137), 137, "smoke: begun"),  # as if it had been killed: nothing is written down any more
    ):

        def stop(*_, problem=problem):
            raise problem

        monkeypatch.setattr("fedagem.runs.many_runs.run_jobs", stop)
        assert CliRunner().invoke(reproduce.command, arguments).exit_code == code
        shown = list_studies(tmp_path)
        assert wanted in shown
        assert "1 of 2 runs" in " ".join(shown.split())
        assert ("tiny at the scale smoke failed: the disk is full." in shown) == (code == 2)


def test_the_list_of_all_studies_is_whole_in_a_narrow_terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path))
    (tmp_path / "cifar100").mkdir()
    (tmp_path / "cifar100" / "cifar-100-python.tar.gz").touch()
    shown = list_studies(tmp_path)
    for name in study_names(plan_folder()):
        assert re.search(rf"^{name} ", shown, re.MULTILINE)
        assert load_study(plan_folder(), name).paper in " ".join(shown.split())
    assert "…" not in shown
    assert re.search(r"^projection-rate +cifar100 +not run", shown, re.MULTILINE)
    assert re.search(r"^seq-cifar10 +cifar10 \(missing\), +not run", shown, re.MULTILINE)
    assert "`fedagem data` says where to get what is missing" in shown


def test_the_list_names_weights_that_only_one_scale_needs(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path))
    assert "resnet18" not in list_studies(tmp_path)
    assert "resnet18-f37072fd.pth" in list_studies(tmp_path, "--scale", "paper")


def test_the_list_says_if_a_study_was_not_run_as_it_stands(finished, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    out, _ = finished
    shutil.copytree(out / "runs", tmp_path / "runs")
    arguments = ["tiny", "--seeds", "1", "--methods", "fedavg", "--out", str(tmp_path)]
    assert CliRunner().invoke(reproduce.command, arguments, catch_exceptions=False).exit_code == 0
    assert "1 seed, some of its methods" in " ".join(list_studies(tmp_path).split())


def test_estimates_are_made_on_request(folder, monkeypatch):
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    monkeypatch.setattr(Estimator, "seconds", lambda *_: 3 * 3600)
    result = CliRunner().invoke(reproduce.command, ["--estimate", "--seeds", "4"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert re.search(r"tiny\W+8\W+12 h\W+12 h", result.output)


def test_the_command_of_a_report_can_be_pasted_into_a_shell(finished, folder, monkeypatch):
    out, _ = finished
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    monkeypatch.setattr("fedagem.runs.many_runs.run_jobs", lambda *_: None)
    assignment = "task_runner.settings.optimizer={lr: 0.2}"
    arguments = ["tiny", "--seeds", "1", "--out", str(out / "pasted"), "--set", assignment]
    assert CliRunner().invoke(reproduce.command, arguments, catch_exceptions=False).exit_code == 0
    [command] = re.findall(r"Ours: `(.+?)`", (out / "pasted" / "tiny-smoke" / "report.md").read_text())
    assert shlex.split(command)[-2:] == ["--set", assignment]


def test_the_report_leaves_out_what_was_set_on_the_command_line(finished, folder, monkeypatch):
    out, _ = finished
    said = (out / "tiny-smoke" / "report.md").read_text()
    assert "`data_loader.settings.test_samples=40`" in said
    monkeypatch.setattr("fedagem.plans.workspace.plan_folder", lambda: folder)
    monkeypatch.setattr("fedagem.runs.many_runs.run_jobs", lambda *_: None)
    arguments = ["tiny", "--seeds", "1", "--out", str(out / "other"), "--set", "data_loader.settings.test_samples=30"]
    result = CliRunner().invoke(reproduce.command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    said = (out / "other" / "tiny-smoke" / "report.md").read_text()
    assert "`data_loader.settings.samples_per_client=40`" in said
    assert "`data_loader.settings.test_samples=40`" not in said
