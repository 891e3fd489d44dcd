"""The walk of docs/federation.md with vehicles: frames over TLS from `carla-bridge serve` to collaborators of `fx`."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from fedagem.learning.model_file import ModelDescription, read_model, write_model
from fedagem.plans.plan import Plan
from fedagem.runs.metrics_log import MetricRow, read_metrics
from fedagem.system import HeldPort
from models.tiny_yolo import TinyYolo
from tests.support.waiting import wait_for
from tests.support.walk_through import SECONDS, Section, checkout, run, started

HOST = socket.gethostname()
VEHICLES = ("vehicle_1", "vehicle_2")
SIZE = [160, 96]


@pytest.fixture
def walk(tmp_path: Path) -> Section:
    short = {"HOST": HOST, "/data": str(tmp_path / "data"), "--seconds 480": "--seconds 6"}
    return Section("On several machines, with vehicles", short)


@pytest.fixture
def workspace(tmp_path: Path, repository: Path) -> Iterator[Path]:
    """A checkout with the demo's plan: two rounds of four seconds, small pictures and a thin network."""
    with closing(HeldPort()) as port:
        small = {
            "carla.image": {"width": SIZE[0], "height": SIZE[1], "fov": 90},
            "carla.min_pixels": 4,
            "carla.traffic": {"city": {"vehicles": 6, "walkers": 2}, "highway": {"vehicles": 6}},
            "carla.schedule": [{"at": 4, "vehicle": "vehicle_2", "region": "highway"}],
            "aggregator.settings.snapshots": [],
            "data_loader.settings.seconds_per_round": 4,
            "data_loader.settings.input_size": SIZE,
            "data_loader.settings.batch_size": 2,
            "data_loader.settings.epochs": 1,
            "task_runner.settings.model.settings.input_size": SIZE,
            "task_runner.settings.model.settings.width": 0.125,
            "task_runner.settings.objective.settings.min_size": 0,
            "network.settings.agg_port": port.number,
        }
        plan = Plan.load(repository / "plan" / "carla_demo.yaml").changed(small, rounds=2)
        yield checkout(tmp_path / "machine", plan.to_yaml())


def change_plan(workspace: Path, path: str, value: object) -> None:
    """Write a setting into the plan, as a reader does who is told to."""
    file = workspace / "plan" / "plan.yaml"
    plan = yaml.safe_load(file.read_text())
    *sections, name = path.split(".")
    place = plan
    for section in sections:
        place = place.setdefault(section, {})
    place[name] = value
    file.write_text(yaml.safe_dump(plan, sort_keys=False))


def write_initial_model(workspace: Path, path: Path) -> None:
    """The model of an earlier run, as far as a federation needs it."""
    chosen = Plan.of_run(workspace / "plan" / "plan.yaml", "plan").training.model
    network = TinyYolo(**chosen.settings)
    weights = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    write_model(path, weights, ModelDescription(network=chosen))


def values(rows: list[MetricRow], metric: str, client: str) -> list[float]:
    return [row.value for row in rows if row.metric == metric and row.client == client]


@pytest.mark.timeout(900)
def test_the_walk_with_vehicles(workspace: Path, walk: Section, tmp_path: Path) -> None:
    (record,) = walk.commands(0, "carla-bridge")
    run(workspace, record)
    told = dict(re.findall(r"`([a-z_.]+): (\{.*?\})`", walk.text))
    assert sorted(told) == ["data_loader.settings.evaluation.paths", "data_loader.settings.stream"]
    for path, value in told.items():
        change_plan(workspace, path, yaml.safe_load(value))
    assert "`task_runner.settings.initial_model`" in walk.text
    write_initial_model(workspace, tmp_path / "earlier" / "last.safetensors")
    change_plan(workspace, "task_runner.settings.initial_model", str(tmp_path / "earlier" / "last.safetensors"))

    run(workspace, f"fx plan initialize -a {HOST}")
    (create,) = re.findall(r"`(fx collaborator create .*?)`", walk.text)
    run(workspace, create)
    with (workspace / "plan" / "data.yaml").open("a") as data:
        data.write("vehicle_2,vehicle_2\n")  # what the same command writes for the other vehicle
    certify = f"from src.prepare import certify; certify({HOST!r}, {list(VEHICLES)!r})"
    subprocess.run([sys.executable, "-c", certify], cwd=workspace, check=True, capture_output=True)

    (serve,) = walk.commands(1, "carla-bridge")
    ready = tmp_path / "ready"
    with started(workspace, f"{serve.replace(':4400', ':0')} --ready-file {ready}", tmp_path / "serve.log") as fleet:
        wait_for(lambda: ready.exists() or fleet.poll() is not None, SECONDS)
        assert fleet.poll() is None, (tmp_path / "serve.log").read_text()
        change_plan(workspace, "data_loader.settings.stream.port", int(ready.read_text().rpartition(":")[2]))
        commands = {"aggregator": "fx aggregator start"}
        commands |= {name: f"fx collaborator start -n {name}" for name in VEHICLES}
        with ExitStack() as stack:
            running = {
                name: stack.enter_context(started(workspace, line, tmp_path / f"{name}.log"))
                for name, line in commands.items()
            }
            for name, process in running.items():
                assert process.wait(SECONDS) == 0, (tmp_path / f"{name}.log").read_text()[-3000:]
        fleet.send_signal(signal.SIGINT)
        assert fleet.wait(60) == 0

    rows = read_metrics(workspace)
    for name in VEHICLES:
        assert values(rows, "samples", name) == [4, 4], "each round learns from each of its seconds, once"
    assert values(rows, "buffer/highway", "vehicle_2") == [0, 4], "vehicle_2 takes the highway at second 4"
    assert len(values(rows, "map_50/all", "vehicle_1")) == 3, "of the initial model, and after each round"
    assert read_model(workspace / "save" / "last.safetensors").description.rounds == 2
    assert "Traceback" not in (tmp_path / "serve.log").read_text()
