"""A user's mistake ends in one sentence and an exit code, in bounded time, without a traceback."""

import shutil
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from chaos.processes import end
from fedagem.cli.main import main
from fedagem.files import Lock
from fedagem.runs.processes import lock_client
from tests.support.fx_federations import SETTINGS, change_plan_file, fedagem, finish, fresh_copy, fx

BUSY = "is being run by another process: wait until it has ended"


def assert_one_sentence(code, output, *words):
    assert code == 2, output
    assert "Traceback" not in output
    [error] = [line for line in output.splitlines() if line.startswith("Error: ")]
    for word in words:
        assert word in error, error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "task_runner.settings.method=derr"], ["task_runner.settings.method is 'derr'", "did you mean der"]),
        (["--set", "task_runner.settings.fedagem=maybe"], ["task_runner.settings.fedagem must be true or false"]),
        (["--set", "task_runner.settings.lr=0.1"], ["the plan has no 'task_runner.settings.lr'", "optimizer.lr"]),
        (["--set", "data_loader.settings.clients={"], ["not valid YAML"]),
        (["--rounds", "7"], ["--rounds 7 cannot be shared evenly by 5 tasks"]),
        (["--resume"], ["holds no run to resume"]),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_request_that_cannot_work_is_refused_at_once(command, plan_path, tmp_path, options, words):
    out = tmp_path / "run"
    result = CliRunner().invoke(main, [command, str(plan_path), "--out", str(out), *options])
    assert_one_sentence(result.exit_code, result.output, *words)
    assert not out.exists()


def test_a_plan_that_does_not_exist_is_refused(tmp_path):
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "no.yaml")])
    assert_one_sentence(result.exit_code, result.output, "there is no plan ", "no.yaml, neither a file")


def test_a_folder_that_holds_a_run_is_not_overwritten(plan_path, simulated):
    result = CliRunner().invoke(main, ["simulate", str(plan_path), "--out", str(simulated)])
    assert_one_sentence(result.exit_code, result.output, "exists: resume it (--resume)")


def test_a_run_is_resumed_with_its_own_plan_only(plan_path, simulated):
    arguments = ["simulate", str(plan_path), "--out", str(simulated), "--resume", *SETTINGS, "--seed", "5"]
    result = CliRunner().invoke(main, arguments)
    assert_one_sentence(result.exit_code, result.output, "is not the plan you gave")


def test_reporting_on_what_is_no_run_is_refused(tmp_path):
    result = CliRunner().invoke(main, ["report", str(tmp_path / "nothing")])
    assert_one_sentence(result.exit_code, result.output, "nothing is not a run")


def test_data_that_is_not_there_ends_the_run(repository, tmp_path):
    missing = tmp_path / "no" / "data"
    arguments = ("--workers", "2", "--set", f"data_loader.settings.root={missing}")
    process = fedagem("simulate", repository / "plan" / "rotated_mnist.yaml", "--out", tmp_path / "run", *arguments)
    code, output = finish(process)
    assert_one_sentence(code, output, str(missing))


def test_training_that_explodes_stops_everybody_with_a_reason(federated, tmp_path):
    run = fresh_copy(federated, tmp_path / "run")
    change_plan_file(run, "task_runner", optimizer={"lr": 1e30})
    processes = [fx(run, "aggregator", "start")]
    processes += [fx(run, "collaborator", "start", "-n", name) for name in ("client_1", "client_2")]
    try:
        answers = [finish(process) for process in processes]
    finally:
        end(*processes)
    for code, output in answers:
        assert code == 2, output
        assert "Error: The federation stopped: every result of stage train in round 0 was refused" in output
        assert "Traceback" not in output


def test_a_model_that_cannot_be_built_ends_the_run(plan_path, tmp_path):
    arguments = (*SETTINGS, "--set", "task_runner.settings.model.template=models.mnist_cnn.SmalCNN")
    code, output = finish(fedagem("run", plan_path, "--out", tmp_path / "run", *arguments))
    assert_one_sentence(code, output, "prepare ended", "models.mnist_cnn.SmalCNN", "cannot be imported")


def test_who_cannot_join_is_told_why(federated, tmp_path):
    """One aggregator that admits client_1 alone, and three collaborators who have something wrong."""
    host = fresh_copy(federated, tmp_path / "host")
    (host / "plan" / "cols.yaml").write_text(yaml.safe_dump({"collaborators": ["client_1"]}))
    other_plan, damaged = (Path(shutil.copytree(host, tmp_path / name)) for name in ("other_plan", "damaged"))
    change_plan_file(other_plan, "task_runner", method="agem")
    shutil.copytree(federated / "local_state", damaged / "local_state")
    newest = max((damaged / "local_state" / "client_1").iterdir())
    newest.write_bytes(newest.read_bytes()[:-100])
    newest.rename(newest.with_name("after_round_000000.state"))
    aggregator = fx(host, "aggregator", "start")
    processes = {
        "stranger": fx(host, "collaborator", "start", "-n", "client_2"),
        "other plan": fx(other_plan, "collaborator", "start", "-n", "client_1"),
        "damaged": fx(damaged, "collaborator", "start", "-n", "client_1"),
    }
    try:
        answers = {name: finish(process) for name, process in processes.items()}
        assert aggregator.poll() is None, "the federation goes on waiting for a client_1 that is well"
    finally:
        end(aggregator, *processes.values())
    assert_one_sentence(*answers["stranger"], "does not admit 'client_2'", "fx collaborator certify")
    assert_one_sentence(*answers["other plan"], "runs another plan", "must be the same file on every node")
    assert_one_sentence(*answers["damaged"], "after_round_000000.state is damaged", "was not loaded")


def test_no_command_works_on_a_run_that_another_one_works_on(plan_path, federated, tmp_path):
    run = fresh_copy(federated, tmp_path / "run")
    plan = (run / "plan" / "plan.yaml").read_bytes()
    with Lock(run / "run.lock") as lock:
        assert lock.take()
        assert_one_sentence(*finish(fx(run, "aggregator", "start")), BUSY)
        for command in ("run", "simulate"):
            result = CliRunner().invoke(main, [command, str(plan_path), "--out", str(run), "--resume", *SETTINGS])
            assert_one_sentence(result.exit_code, result.output, BUSY)
    assert (run / "plan" / "plan.yaml").read_bytes() == plan
    assert not (run / "metrics.jsonl").exists()


def test_nobody_works_beside_a_collaborator_of_the_same_name(federated, tmp_path):
    run = fresh_copy(federated, tmp_path / "run")
    with lock_client(run, "client_1"):
        code, output = finish(fx(run, "collaborator", "start", "-n", "client_1"))
    assert_one_sentence(code, output, "client_1 of", "is at work in another process: end that one first")


def test_an_aggregator_that_nobody_hears_from_is_given_up(federated, tmp_path):
    run = fresh_copy(federated, tmp_path / "run")
    change_plan_file(run, "collaborator", connect_seconds=1)
    change_plan_file(run, "network", client_reconnect_interval=1)
    began = time.monotonic()
    code, output = finish(fx(run, "collaborator", "start", "-n", "client_1"))
    assert_one_sentence(code, output, "could not be reached for", "agg_port")
    assert time.monotonic() - began < 300


def test_a_damaged_checkpoint_is_never_loaded(federated, tmp_path):
    run = fresh_copy(federated, tmp_path / "run")
    content = (federated / "save" / "checkpoint.state").read_bytes()
    (run / "save" / "checkpoint.state").write_bytes(content[: len(content) // 2])
    code, output = finish(fx(run, "aggregator", "start"))
    assert_one_sentence(code, output, "save/checkpoint.state is damaged", "was not loaded")
