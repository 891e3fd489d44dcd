"""The walk through `fx` on several machines of docs/federation.md, in two separate workspace folders."""

import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fedagem.plans.plan import Plan
from fedagem.runs.results import collect_results

FX = str(Path(sys.executable).with_name("fx"))
FEDAGEM = str(Path(sys.executable).with_name("fedagem"))
SECONDS = 300
DOCUMENT = "docs/federation.md"


def fx(folder: Path, arguments: list[str]) -> None:
    """Run an fx command to its end, with yes to whatever it asks; it must succeed."""
    done = subprocess.run(
        [FX, *arguments], cwd=folder, input="y\n", capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"fx {' '.join(arguments)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


class WalkThrough:
    """The commands of the document, block by block, with this machine's name and the names of its collaborators."""

    def __init__(self, document: Path) -> None:
        section = document.read_text().partition("## On several machines")[2].partition("\n## ")[0]
        blocks = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        self.aggregator, self.collaborator, self.signing, self.start = (_commands(block) for block in blocks[:4])


def _commands(block: str) -> list[str]:
    return [line.replace("agg.example.org", "localhost") for line in block.splitlines() if line.startswith("fx ")]


def words(line: str, name: str = "client_1", rank: int = 0) -> list[str]:
    """A command's arguments, for another collaborator than the document's."""
    return shlex.split(line.replace("client_1", name).replace("-d 0", f"-d {rank}"), comments=True)[1:]


@pytest.fixture
def aggregator_workspace(tmp_path: Path, repository: Path) -> Path:
    """A checkout as far as it matters here: the workspace, with its link to the plans, and a small plan."""
    checkout = tmp_path / "aggregator_machine"
    shutil.copytree(repository / "workspace", checkout / "workspace", symlinks=True)
    shutil.copytree(repository / "plan", checkout / "plan")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    changes = {
        "data_loader.settings.clients": 2,
        "data_loader.settings.partition.classes_per_client": 5,
        "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
        "network.settings.agg_port": port,
    }
    plan = Plan.load(checkout / "plan" / "rotated_digits.yaml").changed(changes, rounds=5)
    (checkout / "plan" / "plan.yaml").write_text(plan.to_yaml())
    return checkout / "workspace"


@pytest.mark.timeout(900)
def test_the_walk_through_several_machines(aggregator_workspace: Path, tmp_path: Path, repository: Path) -> None:
    here, walk = aggregator_workspace, WalkThrough(repository / DOCUMENT)
    for line in walk.aggregator:
        fx(here, words(line))

    there = tmp_path / "collaborator_machine"
    there.mkdir()
    shutil.copy(here / "workspace.zip", there)
    unpack, *introduce = walk.collaborator
    sign, accept = walk.signing
    fx(there, words(unpack))
    away = there / "workspace"
    for rank, name in enumerate(("client_1", "client_2")):
        for line in introduce:
            fx(away, words(line, name, rank))
        shutil.copy(away / f"col_{name}_to_agg_cert_request.zip", here)
        fx(here, words(sign, name))
        shutil.copy(here / f"agg_to_col_{name}_signed_cert.zip", away)
        fx(away, words(accept, name))

    start_aggregator, start_collaborator = walk.start
    commands = {"aggregator": (here, words(start_aggregator))}
    commands |= {name: (away, words(start_collaborator, name)) for name in ("client_1", "client_2")}
    running = {}
    try:
        for name, (folder, arguments) in commands.items():
            log = (tmp_path / f"{name}.log").open("wb")
            running[name] = subprocess.Popen([FX, *arguments], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        for name, process in running.items():
            assert process.wait(SECONDS) == 0, (tmp_path / f"{name}.log").read_text()[-3000:]
    finally:
        for process in running.values():
            process.kill()

    for name in ("last.pbuf", "last.safetensors"):
        assert (here / "save" / name).stat().st_size > 0
    assert not (here / "local_state").exists()
    assert sorted(folder.name for folder in (away / "local_state").iterdir()) == ["client_1", "client_2"]
    report = subprocess.run([FEDAGEM, "report", "."], cwd=here, capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stderr
    results = collect_results(here)
    assert results.rounds == 5
    assert results.clients == 2
    assert len(results.accuracy_matrix["domain_il"]) == 6
