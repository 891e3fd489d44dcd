"""What is asked of the system: memory that is kept, processes that end together, ports, and libraries that fit."""

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import psutil
import pytest

from fedagem import system
from fedagem.system import HeldPort, check_torch_pair

BROKEN = 'raise RuntimeError("operator torchvision::nms does not exist")\n'


@pytest.fixture
def mixed_pair(tmp_path):
    """An environment in which torchvision is of another build and cannot be imported."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(BROKEN)
    described = tmp_path / "torchvision-0.27.1+cpu.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.27.1+cpu\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def run(environment, *command, folder):
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )


def test_the_installed_pair_is_accepted():
    check_torch_pair()


@pytest.mark.parametrize(
    ("torch", "torchvision", "imported"),
    [
        ("2.12.1", "0.27.1", False),
        ("2.12.0+cpu", "0.27.1+cpu", False),
        ("2.13.0", "0.28.0", False),
        ("2.13.0", "0.27.1", True),
        ("2.12.1+cu130", "0.27.1", True),
        ("2.13.0a0+git1234", "0.28.0", True),
        ("3.0.0", "1.15.0", True),
    ],
)
def test_torchvision_is_imported_to_see_whether_it_fits_unless_the_versions_say_so(
    torch, torchvision, imported, monkeypatch
):
    seen: list[str] = []
    monkeypatch.setattr(system, "version", {"torch": torch, "torchvision": torchvision}.__getitem__)
    monkeypatch.setattr("importlib.import_module", seen.append)
    check_torch_pair()
    assert seen == ["torchvision"] * imported


def test_a_mixed_pair_ends_every_command_in_one_sentence(mixed_pair, repository):
    fedagem = Path(sys.executable).with_name("fedagem")
    ended = run(mixed_pair, fedagem, "simulate", "plan/rotated_digits.yaml", folder=repository)
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 2
    assert said.startswith("Error: torchvision 0.27.1+cpu does not fit torch ")
    assert "operator torchvision::nms does not exist" in said
    assert re.search(r"`pip install --force-reinstall '?torch[<=>].* '?torchvision[<=>].*`\.", said)
    assert "Traceback" not in said


def test_a_mixed_pair_is_refused_by_the_workspace_too(mixed_pair, repository):
    ended = run(mixed_pair, sys.executable, "-c", "import src.data_loader", folder=repository / "workspace")
    assert "FedAGemError: torchvision 0.27.1+cpu does not fit torch " in ended.stderr


SCRIPT = """
import resource, sys, torch
from fedagem.learning.trainer import Component, OptimizerSettings, TrainingSettings, Trainer

if sys.argv[1] == "training":
    network, optimizer = Component(template="models.mnist_cnn.SmallCNN"), OptimizerSettings(lr=0.1)
    Trainer.build(TrainingSettings(model=network, optimizer=optimizer), seed=0)
torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(kind):
    said = subprocess.run([sys.executable, "-c", SCRIPT, kind], capture_output=True, text=True, timeout=200, check=True)
    return int(said.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is meant")
def test_a_training_process_does_not_pay_for_the_same_pages_again():
    assert page_faults("training") < page_faults("plain") / 5


def test_a_held_port_is_for_a_server_of_this_user_and_for_nobody_else():
    with closing(HeldPort()) as held:
        for host in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(OSError, match="in use"):
                socket.create_server((host, held.number))  # with SO_REUSEADDR
        server = grpc.server(ThreadPoolExecutor(max_workers=1))
        assert server.add_insecure_port(f"[::]:{held.number}") == held.number
        server.start()
        for _ in range(20):
            with grpc.insecure_channel(f"localhost:{held.number}") as channel:
                grpc.channel_ready_future(channel).result(timeout=20)
        server.stop(None).wait()
    with socket.create_server(("127.0.0.1", held.number)):
        pass


def test_held_ports_differ():
    ports = [HeldPort() for _ in range(50)]
    assert len({port.number for port in ports}) == 50
    for port in ports:
        port.close()


def test_a_process_can_end_with_its_parent():
    child = "from fedagem.system import end_with_parent; import signal, time; end_with_parent(signal.SIGKILL); "
    child += "print('ready', flush=True); time.sleep(600)"
    code = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {child!r}]).pid, flush=True); input()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    started = psutil.Process(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "ready\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert started.wait(timeout=30) is None
