"""Clients side by side in worker processes, and the settings of the paper in whole federations."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.errors import PlanError
from fedagem.files import read_state
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from tests.support.in_process_simulation import simulate_in_process
from tests.support.waiting import wait_for

TINY = [
    "task_runner.settings.model.template=models.mnist_cnn.SmallCNN",
    "data_loader.settings.samples_per_client=40",
    "data_loader.settings.test_samples=50",
    "data_loader.settings.tasks.count=2",
    "aggregator.settings.rounds_to_train=8",
]
SEQUENTIAL = [
    "data_loader.settings.tasks={kind: sequential, count: 2}",
    "data_loader.settings.partition={kind: dirichlet, alpha: 0.3, scope: task}",
]


def make_run(repository, directory, assignments=(), rounds=4):
    plan = Plan.load(repository / "plan" / "rotated_digits.yaml")
    plan = plan.changed(assignments=[*TINY, *assignments], rounds=rounds)
    check_plan(plan)
    create_run(directory, plan)
    return directory


def start(directory, workers, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "src.simulate", "--workers", str(workers), *options],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def outcome(directory):
    """Metrics without times, the model, and every client's buffer."""
    facts = [row for row in rows(directory) if "seconds" not in row["metric"]]
    buffers = {
        path.parent.name: str(read_state(path)["buffer"]) for path in directory.glob("local_state/*/*_000003.state")
    }
    return facts, (directory / "save" / "last.pbuf").read_bytes(), buffers


def wait_for_file(path, simulation):
    def look():
        assert simulation.poll() is None, simulation.communicate()[0]
        return path.exists()

    wait_for(look, 250)


def workers_of(simulation):
    found = []
    for child in psutil.Process(simulation.pid).children():
        with suppress(psutil.NoSuchProcess):  # libraries start short-lived processes, too
            if "spawn_main" in str(child.cmdline()):
                found.append(child)
    return found


SAMPLED = ["assigner.settings.participation.per_round=3"]


@pytest.fixture(scope="module")
def undisturbed(repository, tmp_path_factory):
    """A run in one process with sampled clients."""
    directory = make_run(repository, tmp_path_factory.mktemp("one") / "run", SAMPLED)
    simulate_in_process(directory)
    return outcome(directory)


@pytest.mark.parametrize(
    ("workers", "options"),
    [
        (1, ("--device", "cpu", "--device", "cpu")),
        pytest.param(2, (), marks=pytest.mark.nightly),
        pytest.param(3, (), marks=pytest.mark.nightly),
    ],
)
def test_side_by_side_or_one_after_the_other_gives_the_same_bits(repository, tmp_path, undisturbed, workers, options):
    together = start(make_run(repository, tmp_path / "run", SAMPLED), workers, *options)
    said = together.communicate(timeout=280)[0]
    assert together.returncode == 0, said
    assert outcome(tmp_path / "run") == undisturbed
    processes = 1 + workers * max(len(options) // 2, 1)
    assert said.count("Parsing Federated Learning Plan") == processes, "the aggregator's process and the workers"


@pytest.mark.nightly
@pytest.mark.parametrize("setting", ["compile=true", "precision=bf16"])
def test_options_of_speed_give_the_same_bits_for_any_number_of_workers(repository, tmp_path, undisturbed, setting):
    option = f"task_runner.settings.{setting}"
    for workers in (1, 2):
        directory = make_run(repository, tmp_path / str(workers), [*SAMPLED, option])
        simulation = start(directory, workers)
        said = simulation.communicate(timeout=280)[0]
        assert simulation.returncode == 0, said
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")
    assert outcome(tmp_path / "1") != undisturbed


def test_a_killed_worker_ends_the_simulation_and_the_run_goes_on(repository, tmp_path, undisturbed):
    directory = make_run(repository, tmp_path / "run", SAMPLED)
    simulation = start(directory, workers=2)
    wait_for_file(directory / "save" / "checkpoint.state", simulation)
    workers_of(simulation)[0].kill()
    said = simulation.communicate(timeout=200)[0]
    if not (directory / "save" / "last.pbuf").exists():
        assert simulation.returncode == 2
        assert "Error: worker 1 of the simulation ended with exit code -9: start it again with --resume." in said
    simulate_in_process(directory)
    assert outcome(directory) == undisturbed


@pytest.mark.nightly
def test_a_worker_killed_while_it_starts_ends_the_simulation(repository, tmp_path):
    simulation = start(make_run(repository, tmp_path / "run"), workers=2)
    wait_for(lambda: workers_of(simulation), 200)[0].kill()
    said = simulation.communicate(timeout=200)[0]
    assert simulation.returncode == 2
    assert "Error: worker 1 of the simulation ended with exit code -9: start it again with --resume." in said


def test_an_aggregator_that_cannot_write_ends_the_simulation(repository, tmp_path):
    """The workers are alive and wait for an answer: they must not be waited for in turn."""
    directory = make_run(repository, tmp_path / "run")
    (directory / "save" / ".checkpoint.state.partial").mkdir()
    simulation = start(directory, workers=2)
    said = simulation.communicate(timeout=200)[0]
    assert simulation.returncode == 2
    [sentence] = [line for line in said.splitlines() if line.startswith("Error: ")]
    assert "save/checkpoint.state cannot be written: Is a directory." in sentence


def test_workers_do_not_outlive_a_simulation_that_was_killed(repository, tmp_path):
    simulation = start(make_run(repository, tmp_path / "run", rounds=400), workers=2)
    wait_for_file(tmp_path / "run" / "save" / "checkpoint.state", simulation)
    children = psutil.Process(simulation.pid).children(recursive=True)
    os.kill(simulation.pid, signal.SIGKILL)
    simulation.communicate()
    assert len(children) >= 2
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


@pytest.fixture
def simulated(repository, tmp_path):
    def run(*assignments, **options):
        directory = make_run(repository, tmp_path / "run", assignments, **options)
        simulate_in_process(directory)
        return rows(directory)

    return run


def learners(found, round_number):
    return sorted(r["client"] for r in found if r["round"] == round_number and r["metric"] == "samples")


def values(found, metric):
    return [row["value"] for row in found if row["metric"] == metric]


def test_sampled_clients_keep_their_own_buffers_and_everybody_is_tested(simulated, tmp_path):
    found = simulated("assigner.settings.participation.per_round=2")
    took_part = [learners(found, r) for r in range(4)]
    assert all(len(names) == 2 for names in took_part)
    assert len({tuple(names) for names in took_part}) > 1
    for name in {name for names in took_part for name in names}:
        turns = [r for r in range(4) if name in took_part[r]]
        state = read_state(tmp_path / "run" / "local_state" / name / f"after_round_{turns[-1]:06d}.state")
        assert state["buffer"]["seen"] == 40 * len(turns), "a buffer counts the samples of its own client alone"
    tested = {r["client"] for r in found if r["stage"] == "evaluate" and r["metric"] == "bytes_down"}
    assert len(tested) == 5


def test_clients_who_arrive_later_take_part_from_their_task_on(simulated):
    found = simulated(*SEQUENTIAL, "data_loader.settings.arrivals={first: 3, then: 2}")
    assert [len(learners(found, r)) for r in range(4)] == [3, 3, 5, 5]


def test_class_incremental_runs_report_both_scenarios(simulated):
    found = simulated(*SEQUENTIAL)
    class_il, task_il = values(found, "accuracy/class_il"), values(found, "accuracy/task_il")
    assert len(class_il) == len(task_il) == 3, "before, and after each of two tasks"
    assert all(t >= c for of_c, of_t in zip(class_il, task_il, strict=True) for c, t in zip(of_c, of_t, strict=True))


def test_at_their_own_pace_clients_learn_from_equally_many_samples(simulated):
    found = simulated(
        SEQUENTIAL[0],
        "data_loader.settings.partition={kind: dirichlet, alpha: 0.3}",
        "data_loader.settings.asynchronous_samples=20",
        "data_loader.settings.samples_per_client=null",
    )
    assert set(values(found, "samples")) == {20.0}


def test_arrivals_must_agree_between_data_and_rounds(simulated):
    arrivals = "assigner.settings.participation={arrivals: {first: 3, then: 1}, rounds_per_task: 2}"
    with pytest.raises(PlanError, match=r"participation\.arrivals is .*, but data_loader\.settings\.arrivals is None"):
        simulated(*SEQUENTIAL, arrivals)


def simulate(repository, directory, *options):
    assignments = [part for assignment in [*TINY, *SAMPLED] for part in ("--set", assignment)]
    plan = str(repository / "plan" / "rotated_digits.yaml")
    return ["simulate", plan, "--out", str(directory), "--rounds", "4", *assignments, *options]


@pytest.mark.nightly
def test_clients_shared_between_devices_give_the_same_bits(repository, tmp_path, undisturbed):
    """The whole command; what it starts for two devices is compared above."""
    command = simulate(repository, tmp_path / "run", "--devices", "cpu,cpu", "--workers-per-device", "1")
    fedagem = Path(sys.executable).with_name("fedagem")
    done = subprocess.run([fedagem, *command], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert outcome(tmp_path / "run") == undisturbed
    assert (tmp_path / "run" / "logs" / "simulation.log").read_text().count("Parsing Federated Learning Plan") == 3, (
        "the aggregator's process and a worker on each device"
    )


def test_devices_of_the_command_become_those_of_the_workers(repository, tmp_path, monkeypatch):
    started = []

    def start_nothing(group, name, command, **_):
        started.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr("fedagem.runs.processes.ProcessGroup.start", start_nothing)
    command = simulate(repository, tmp_path / "run", "--devices", "cpu,cpu", "--workers-per-device", "3")
    assert CliRunner().invoke(main, command).exit_code == 130
    [command] = started
    assert command[2:] == ["src.simulate", "--workers", "3", *("--device", "cpu") * 2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--devices", "cpu,cuda:97"], "--devices is cuda:97, but this machine has"),
        (["--devices", "gpu"], "--devices is 'gpu'; valid values: auto, cpu, cuda, cuda:N."),
        (["--devices", "cpu", "--workers", "2"], "--workers and --devices exclude each other"),
        (["--workers-per-device", "2"], "--workers-per-device needs --devices"),
    ],
)
def test_devices_that_cannot_be_used_are_refused(repository, tmp_path, options, sentence):
    refused = CliRunner().invoke(main, simulate(repository, tmp_path / "run", *options))
    assert refused.exit_code == 2
    assert sentence in " ".join(refused.output.split())
    assert not (tmp_path / "run").exists()
