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

from chaos.subjects import DRIVE
from fedagem.learning.model_file import read_model
from fedagem.plans.driving import DrivingSettings, StreamAddress
from fedagem.plans.plan import Plan
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import MetricRow, read_metrics
from fedagem.runs.preparation import prepare, warm_up
from fedagem.system import HeldPort
from tests.support.waiting import wait_for
from tests.support.walk_through import SECONDS, Section, checkout, run, started

HOST = socket.gethostname()
VEHICLES = ("vehicle_1", "vehicle_2")


@pytest.fixture
def walk(tmp_path: Path) -> Section:
    """The document's commands, with this machine as HOST and a small plan in place of the demo's."""
    return Section("On several machines, with vehicles", {"HOST": HOST, " carla_demo ": f" {tmp_path / 'small.yaml'} "})


@pytest.fixture
def machine(tmp_path: Path, repository: Path) -> Iterator[Path]:
    """The folder of a checkout, and a plan: the demo's with two rounds of four seconds, and little to record before."""
    with closing(HeldPort()) as port:
        changes = {
            **DRIVE,
            "carla.schedule": [{"at": 4, "vehicle": "vehicle_2", "region": "highway"}],
            "driving.evaluation_vehicles": 1,
            "data_loader.settings.seconds_per_round": 4,
            "network.settings.agg_port": port.number,
        }
        plan = Plan.load(repository / "plan" / "carla_demo.yaml").changed(changes, rounds=2)
        (tmp_path / "small.yaml").write_text(plan.to_yaml())
        yield checkout(tmp_path / "machine").parent


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


def values(rows: list[MetricRow], metric: str, client: str) -> list[float]:
    return [row.value for row in rows if row.metric == metric and row.client == client]


def followed_by_fedagem_run(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan that `fedagem run` makes of the same one before its rounds, in the folder where it was prepared."""
    monkeypatch.chdir(machine)
    return warm_up(prepare(Plan.load(machine.parent / "small.yaml"), live=True))


@pytest.mark.timeout(900)
def test_the_walk_with_vehicles(machine: Path, walk: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = machine / "workspace"
    (prepare_it,) = walk.commands(0, "fedagem")
    run(machine, prepare_it)
    prepared = plan_of_run(workspace)
    assert isinstance(prepared.data, DrivingSettings)
    assert sorted(prepared.data.evaluation.paths) == ["city", "highway"]
    assert prepared.data.stream == StreamAddress(host=HOST, port=4400)
    recorded = {file: file.stat().st_mtime_ns for file in machine.glob("snippets/*/recording.json")}
    alike = followed_by_fedagem_run(machine, monkeypatch)
    assert len(recorded) == 2, "the drives of the evaluation and of the warm-up"
    assert {file: file.stat().st_mtime_ns for file in machine.glob("snippets/*/recording.json")} == recorded
    assert prepared.origin == alike.origin, "the rounds compute what those of `fedagem run` compute"
    address = {"data_loader.settings.stream.host": HOST}
    assert prepared == alike.changed(address), "and nothing but the address of the stream differs"

    run(workspace, f"fx plan initialize -a {HOST}")
    assert plan_of_run(workspace).origin == prepared.origin
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
