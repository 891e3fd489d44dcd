"""The walk with secure aggregation of docs/federation.md: each party in a folder of its own, fingerprints exchanged."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from fedagem.plans.plan import Plan
from fedagem.system import HeldPort
from tests.support.walk_through import BIN, SECONDS, Section, checkout, run, started

WALK = Section("On several machines, with `fx`", {"agg.example.org": "localhost"})
SECURE = Section("With secure aggregation", {})
CLIENTS = ("client_1", "client_2", "client_3")


def of_client(line: str, rank: int) -> str:
    return line.replace("client_1", CLIENTS[rank]).replace("-d 0", f"-d {rank}")


def test_the_walk_writes_a_plan_that_protects() -> None:
    """Its first command, as a reader would type it."""
    (line,) = SECURE.commands(0, "fedagem")
    words = shlex.split(line.partition(">")[0])
    done = subprocess.run([BIN / words[0], *words[1:]], capture_output=True, text=True, check=True)
    assert yaml.safe_load(done.stdout)["aggregator"]["settings"]["secure_aggregation"] == {}


@pytest.fixture
def aggregator_workspace(tmp_path: Path, repository: Path) -> Iterator[Path]:
    with closing(HeldPort()) as port:
        small = {
            "data_loader.settings.clients": 3,
            "data_loader.settings.partition.classes_per_client": 5,
            "data_loader.settings.samples_per_client": 64,
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "network.settings.agg_port": port.number,
            "aggregator.settings.secure_aggregation": {},
        }
        plan = Plan.load(repository / "plan" / "rotated_digits.yaml").changed(small, rounds=5)
        yield checkout(tmp_path / "aggregator_machine", plan.to_yaml())


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_walk_with_secure_aggregation(aggregator_workspace: Path, tmp_path: Path) -> None:
    here = aggregator_workspace
    for line in WALK.commands(0):
        run(here, line)
    unpack, *introduce = WALK.commands(1)
    sign, accept = WALK.commands(2)
    (fingerprint,) = SECURE.commands(1, "fedagem")
    homes, lines = {}, []
    for rank, name in enumerate(CLIENTS):
        there = tmp_path / f"machine_{name}"
        there.mkdir()
        shutil.copy(here / "workspace.zip", there)
        run(there, unpack)
        homes[name] = home = there / "workspace"
        for line in introduce:
            run(home, of_client(line, rank))
        shutil.copy(home / f"col_{name}_to_agg_cert_request.zip", here)
        run(here, of_client(sign, rank))
        shutil.copy(here / f"agg_to_col_{name}_signed_cert.zip", home)
        run(home, of_client(accept, rank))
        words = shlex.split(of_client(fingerprint, rank), comments=True)
        shown = subprocess.run([BIN / words[0], *words[1:]], cwd=home, capture_output=True, text=True, check=True)
        lines.append(shown.stdout)
    for folder in (here, *homes.values()):
        (folder / "plan" / "members.yaml").write_text("".join(lines))

    start_aggregator, start_collaborator = WALK.commands(3)
    commands = {"aggregator": (here, start_aggregator)}
    commands |= {name: (homes[name], of_client(start_collaborator, rank)) for rank, name in enumerate(CLIENTS)}
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(started(folder, line, tmp_path / f"{name}.log"))
            for name, (folder, line) in commands.items()
        }
        for name, process in running.items():
            assert process.wait(4 * SECONDS) == 0, (tmp_path / f"{name}.log").read_text()[-3000:]

    assert (here / "save" / "last.safetensors").stat().st_size > 0
    assert not (here / "local_state").exists()
    for name in CLIENTS:
        assert [path.name for path in (homes[name] / "local_state").iterdir()] == [name]
        assert (homes[name] / "local_state" / name / "secagg" / "promises").exists()
