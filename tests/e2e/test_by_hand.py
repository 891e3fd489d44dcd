"""The README's walk through `fx` on several machines, in two separate workspace folders."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedagem.plan import change_plan, load_plan, set_rounds
from fedagem.results import collect_results

FX = str(Path(sys.executable).with_name("fx"))
FEDAGEM = str(Path(sys.executable).with_name("fedagem"))
SECONDS = 300


def fx(folder: Path, *arguments: str) -> str:
    """Run an fx command to its end; it must succeed."""
    done = subprocess.run([FX, *arguments], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"fx {' '.join(arguments)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def aggregator_workspace(tmp_path: Path, repository: Path) -> Path:
    """A checkout as far as it matters here: the workspace, with its link to the plans, and a small plan."""
    checkout = tmp_path / "aggregator_machine"
    shutil.copytree(repository / "workspace", checkout / "workspace", symlinks=True)
    shutil.copytree(repository / "plan", checkout / "plan")
    plan = load_plan(checkout / "plan" / "rotated_digits.yaml")
    change_plan(
        plan,
        [
            "data_loader.settings.clients=2",
            "data_loader.settings.partition.classes_per_client=5",
            "task_runner.settings.model.template=models.mnist_cnn.SmallCNN",
        ],
    )
    set_rounds(plan, 5)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        plan["network"]["settings"]["agg_port"] = probe.getsockname()[1]
    (checkout / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    return checkout / "workspace"


@pytest.mark.timeout(900)
def test_the_walk_through_of_the_readme(aggregator_workspace: Path, tmp_path: Path) -> None:
    here = aggregator_workspace
    fx(here, "plan", "initialize", "-a", "localhost")
    fx(here, "workspace", "certify")
    fx(here, "aggregator", "generate-cert-request", "--fqdn", "localhost")
    fx(here, "aggregator", "certify", "--fqdn", "localhost", "--silent")
    fx(here, "workspace", "export")

    there = tmp_path / "collaborator_machine"
    there.mkdir()
    shutil.copy(here / "workspace.zip", there)
    fx(there, "workspace", "import", "--archive", "workspace.zip")
    away = there / "workspace"
    for rank, name in enumerate(("client_1", "client_2")):
        fx(away, "collaborator", "create", "-n", name, "-d", str(rank), "--silent")
        fx(away, "collaborator", "generate-cert-request", "-n", name, "--silent")
        shutil.copy(away / f"col_{name}_to_agg_cert_request.zip", here)
        fx(here, "collaborator", "certify", "--request-pkg", f"col_{name}_to_agg_cert_request.zip", "--silent")
        shutil.copy(here / f"agg_to_col_{name}_signed_cert.zip", away)
        fx(away, "collaborator", "certify", "--import", f"agg_to_col_{name}_signed_cert.zip")

    commands = {"aggregator": (here, ["aggregator", "start"])}
    commands |= {name: (away, ["collaborator", "start", "-n", name]) for name in ("client_1", "client_2")}
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

    assert (here / "save" / "last.pbuf").stat().st_size > 0
    assert not (here / "local_state").exists()
    assert sorted(folder.name for folder in (away / "local_state").iterdir()) == ["client_1", "client_2"]
    report = subprocess.run([FEDAGEM, "report", "."], cwd=here, capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stderr
    results = collect_results(here)
    assert results["rounds"] == 5
    assert results["clients"] == 2
    assert len(results["accuracy_matrix"]["domain_il"]) == 6
