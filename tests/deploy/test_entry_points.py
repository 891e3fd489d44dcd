"""The containers' entry points: what they refuse, and a federation that they make.

Each script runs in folders of its own, as in its container, and hands over files as containers do: through the exchange
folder alone. No container runs here: all share this machine's network, and the embedded simulator stands for CARLA.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from fedagem.learning.model_file import read_model
from fedagem.runs.metrics_log import read_metrics
from fedagem.system import HeldPort
from tests.support.waiting import wait_for

SCRIPTS = Path(__file__).parents[2] / "deploy"
HOST = socket.gethostname()
VEHICLES = ("vehicle_1", "vehicle_2")
SIZE = "[160, 96]"
SECONDS = 600


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """What a container has: its volumes, and the programs of this installation."""
    for volume in ("workspace", "exchange", "frames"):
        (folder / volume).mkdir(parents=True, exist_ok=True)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    volumes = {name.upper(): str(folder / name) for name in ("workspace", "exchange", "frames")}
    return {"PATH": programs, "HOME": str(folder), **volumes, **variables}


def refusal(script: str, variables: dict[str, str]) -> str:
    """The one sentence that a script ends with."""
    command = [SCRIPTS / script]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1, done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


AGGREGATOR = {"ADDRESS": "agg", "PLAN": "carla_demo", "MEMBERS": "vehicle_1"}


@pytest.mark.parametrize(
    ("script", "variables", "sentence"),
    [
        ("aggregator.sh", AGGREGATOR | {"ADDRESS": ""}, "ADDRESS is not set"),
        ("aggregator.sh", AGGREGATOR | {"PLAN": ""}, "PLAN is not set"),
        ("aggregator.sh", AGGREGATOR | {"MEMBERS": ""}, "MEMBERS is not set"),
        (
            "aggregator.sh",
            AGGREGATOR | {"MEMBERS": "vehicle_1 ../x"},
            "MEMBERS is '../x', which no certificate can have",
        ),
        ("aggregator.sh", AGGREGATOR | {"FLEETS": "a/b"}, "FLEETS is 'a/b'"),
        ("aggregator.sh", AGGREGATOR | {"FLEETS": "agg"}, "FLEETS has 'agg', which is ADDRESS"),
        ("aggregator.sh", AGGREGATOR | {"EXCHANGE": "/nowhere"}, "EXCHANGE is '/nowhere', which is no folder"),
        ("collaborator.sh", {}, "NAME is not set"),
        ("collaborator.sh", {"NAME": "-n"}, "NAME is '-n'"),
        ("collaborator.sh", {"NAME": "vehicle_1", "WORKSPACE": "/nowhere"}, "WORKSPACE is '/nowhere'"),
        ("fleet.sh", {}, "ADDRESS is not set"),
        ("fleet.sh", {"ADDRESS": "fleet", "PORT": "http"}, "PORT is 'http': it must be a whole number"),
        ("fleet.sh", {"ADDRESS": "fleet", "EVALUATION_SECONDS": "-1"}, "EVALUATION_SECONDS is '-1'"),
    ],
)
def test_a_wrong_environment_ends_in_one_sentence(script, variables, sentence, tmp_path):
    assert sentence in refusal(script, environment(tmp_path) | variables)


def test_a_setting_that_the_plan_does_not_know_ends_the_aggregator_and_leaves_nothing(tmp_path):
    variables = environment(tmp_path, **AGGREGATOR, PLAN_SETTINGS="aggregator.settings.nonsense=1")
    done = subprocess.run(
        [SCRIPTS / "aggregator.sh"], env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "workspace" / "workspace").exists()
    assert not list((tmp_path / "exchange").iterdir())


@pytest.mark.parametrize("script", ["aggregator.sh", "collaborator.sh", "fleet.sh"])
def test_help_names_every_variable(script, tmp_path):
    done = subprocess.run(
        [SCRIPTS / script, "--help"], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    for variable in ("WORKSPACE", "EXCHANGE"):
        assert f"{variable}  " in done.stdout
    assert "set -eu" not in done.stdout


@contextmanager
def container(script: str, folder: Path, exchange: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A script in folders of its own, but for the exchange."""
    values = environment(folder, **variables) | {"EXCHANGE": str(exchange)}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([SCRIPTS / script], cwd=folder, env=values, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_containers_make_a_federation_over_mutual_tls(tmp_path):
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    with closing(HeldPort()) as first, closing(HeldPort()) as second:
        aggregator_port, stream_port = first.number, second.number
    with ExitStack() as stack:
        frames = tmp_path / "fleet" / "frames" / "evaluation"
        settings = {
            "aggregator.settings.rounds_to_train": 2,
            "aggregator.settings.snapshots": [],
            "carla.image": "{width: 160, height: 96, fov: 90}",
            "carla.min_pixels": 4,
            "carla.traffic": "{city: {vehicles: 6, walkers: 2}, highway: {vehicles: 6}}",
            "carla.schedule": "[{at: 4, vehicle: vehicle_2, region: highway}]",
            "data_loader.settings.seconds_per_round": 4,
            "data_loader.settings.input_size": SIZE,
            "data_loader.settings.batch_size": 2,
            "data_loader.settings.epochs": 1,
            "data_loader.settings.stream": f"{{host: {HOST}, port: {stream_port}}}",
            "data_loader.settings.evaluation.paths": f"{{city: [{frames}/vehicle_1], "
            f"highway: [{frames}/vehicle_2/001_highway]}}",
            "task_runner.settings.model.settings.input_size": SIZE,
            "task_runner.settings.model.settings.width": 0.125,
            "task_runner.settings.objective.settings.min_size": 0,
            "network.settings.agg_port": aggregator_port,
        }
        lines = "\n".join(f"{path}={value}" for path, value in settings.items())
        aggregator = stack.enter_context(
            container(
                "aggregator.sh",
                _new(tmp_path / "aggregator"),
                exchange,
                ADDRESS="localhost",
                PLAN="carla_demo",
                PLAN_SETTINGS=lines,
                MEMBERS=" ".join(VEHICLES),
                FLEETS=HOST,
            )
        )
        fleet = stack.enter_context(
            container(
                "fleet.sh",
                _new(tmp_path / "fleet"),
                exchange,
                ADDRESS=HOST,
                PORT=str(stream_port),
                EVALUATION_SECONDS="6",
            )
        )
        wait_for(lambda: "serving vehicle_1" in log_of(tmp_path / "fleet") or fleet.poll() is not None, SECONDS)
        assert fleet.poll() is None, log_of(tmp_path / "fleet")[-3000:]
        vehicles = {
            name: stack.enter_context(container("collaborator.sh", _new(tmp_path / name), exchange, NAME=name))
            for name in VEHICLES
        }
        certificate = tmp_path / "vehicle_2" / "workspace" / "workspace" / "cert" / "client" / "col_vehicle_2.crt"
        wait_for(lambda: certificate.exists() or vehicles["vehicle_2"].poll() is not None, SECONDS)
        vehicles["vehicle_2"].kill()
        vehicles["vehicle_2"].wait()
        again = container("collaborator.sh", tmp_path / "vehicle_2", exchange, NAME="vehicle_2")
        vehicles["vehicle_2"] = stack.enter_context(again)
        for name, process in {"aggregator": aggregator, **vehicles}.items():
            assert process.wait(SECONDS) == 0, log_of(tmp_path / name)[-3000:]
        fleet.send_signal(signal.SIGTERM)
        fleet.wait(60)

    here = tmp_path / "aggregator" / "workspace" / "workspace"
    rows = read_metrics(here)
    for name in VEHICLES:
        assert [row.value for row in rows if row.metric == "samples" and row.client == name] == [4, 4]
        assert log_of(tmp_path / name).count("waiting for") == 1, "for its certificate, once"
        assert not list((tmp_path / name).rglob("*/ca/*.key")), "only the aggregator can sign"
    assert read_model(here / "save" / "last.safetensors").description.rounds == 2
    handed = sorted(file.name for file in exchange.iterdir())
    assert not [name for name in handed if name.endswith((".key", ".part"))], handed


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
