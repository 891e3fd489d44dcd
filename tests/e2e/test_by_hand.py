"""The walk through `fx` on several machines of docs/federation.md, in two separate workspace folders.

With one collaborator, because each command costs seconds; the walk with vehicles has two.
"""

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fedagem.plans.plan import Plan
from fedagem.runs.results import collect_results
from fedagem.system import HeldPort
from tests.support.walk_through import BIN, SECONDS, Section, checkout, run, started

WALK = Section("On several machines, with `fx`", {"agg.example.org": "localhost"})
CLIENT = "client_1"
"""The document's collaborator."""


@pytest.fixture
def aggregator_workspace(tmp_path: Path, repository: Path) -> Iterator[Path]:
    """A checkout with a small plan."""
    with closing(HeldPort()) as port:
        small = {
            "data_loader.settings.clients": 1,
            "data_loader.settings.partition.classes_per_client": 10,
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "network.settings.agg_port": port.number,
        }
        plan = Plan.load(repository / "plan" / "rotated_digits.yaml").changed(small, rounds=5)
        yield checkout(tmp_path / "aggregator_machine", plan.to_yaml())


def test_the_walk_begins_with_files_for_its_user_alone() -> None:
    for number in (0, 1):
        assert WALK.block(number)[0].startswith("umask 077"), "as the commands of these tests are run"


@pytest.mark.timeout(900)
def test_the_walk_through_several_machines(aggregator_workspace: Path, tmp_path: Path) -> None:
    here = aggregator_workspace
    for line in WALK.commands(0):
        run(here, line)

    there = tmp_path / "collaborator_machine"
    there.mkdir()
    shutil.copy(here / "workspace.zip", there)
    unpack, *introduce = WALK.commands(1)
    sign, accept = WALK.commands(2)
    run(there, unpack)
    away = there / "workspace"
    for line in introduce:
        run(away, line)
    shutil.copy(away / f"col_{CLIENT}_to_agg_cert_request.zip", here)
    run(here, sign)
    shutil.copy(here / f"agg_to_col_{CLIENT}_signed_cert.zip", away)
    run(away, accept)

    keys = [*here.rglob("*.key"), *away.rglob("*.key")]
    assert len(keys) == 4, "of two authorities, the aggregator and a collaborator"
    for key in keys:
        assert stat.S_IMODE(key.stat().st_mode) == 0o600, key
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700, key.parent

    start_aggregator, start_collaborator = WALK.commands(3)
    commands = {"aggregator": (here, start_aggregator), CLIENT: (away, start_collaborator)}
    commands["watch"] = (here, "fedagem watch .")
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(started(folder, line, tmp_path / f"{name}.log"))
            for name, (folder, line) in commands.items()
        }
        for name, process in running.items():
            assert process.wait(SECONDS) == 0, (tmp_path / f"{name}.log").read_text()[-3000:]

    watched = (tmp_path / "watch.log").read_text()
    assert re.search(r"workspace: \d of 5 rounds, ", watched)
    assert "All 5 rounds are done" in watched
    for name in ("last.pbuf", "last.safetensors"):
        assert (here / "save" / name).stat().st_size > 0
    assert not (here / "local_state").exists()
    assert [folder.name for folder in (away / "local_state").iterdir()] == [CLIENT]
    report = subprocess.run([BIN / "fedagem", "report", "."], cwd=here, capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stderr
    results = collect_results(here)
    assert results.rounds == 5
    assert results.clients == 1
    assert len(results.accuracy_matrix["domain_il"]) == 6
