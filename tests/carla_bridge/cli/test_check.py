"""`carla-bridge check` says what is wrong and what to do, and serves as a health check."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgpack
import pytest

from carla_bridge.config.section import CarlaSettings
from carla_bridge.fleet import graphics, inspection


def check(environment, *arguments):
    command = [sys.executable, "-m", "carla_bridge.cli.main", "check", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def listening(*answered: str, streams: bool = True) -> Iterator[int]:
    """A server that answers CARLA's calls of these names with its version and no other: it stands for one that hangs.

    Returns its port; the next one is open, too, if `streams`.
    """
    with ExitStack() as stack:
        while True:
            server = socket.create_server(("127.0.0.1", 0))
            port = server.getsockname()[1]
            try:
                second = socket.create_server(("127.0.0.1", port + 1))
            except OSError:
                server.close()
                continue
            break
        stack.enter_context(server)
        if streams:
            stack.enter_context(second)
        else:
            second.close()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            unpacker = msgpack.Unpacker()
            while data := connection.recv(65536):
                if not answered:
                    continue
                unpacker.feed(data)
                for _, number, method, _ in unpacker:
                    if method in answered:
                        connection.sendall(msgpack.packb([1, number, None, [[1, "0.9.16"]]]))

        threading.Thread(target=serve, daemon=True).start()
        yield port


def plan(folder, port):
    file = folder / "plan.yaml"
    file.write_text(f"carla: {{host: 127.0.0.1, port: {port}, timeout_seconds: 1}}\n")
    return file


def test_a_look_changes_nothing_and_names_the_map(simulator, environment):
    done = check(environment, "--passive", "--host", simulator.host, "--port", simulator.port, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "host": simulator.host,
        "port": simulator.port,
        "version": "0.9.16",
        "map_name": "GridRing01",
        "synchronous": False,
    }


@pytest.mark.parametrize("options", [[], ["--passive"]])
@pytest.mark.parametrize(
    ("answered", "streams", "sentence"),
    [
        ((), True, "does not answer as a CARLA server within 1 s: another program has the port"),
        (("version",), True, "but did not go on in 1 s"),
        (("version",), False, "where its states and images come from: open that port in the firewall"),
    ],
)
def test_a_server_that_cannot_be_used_is_told_apart(environment, tmp_path, options, answered, streams, sentence):
    with listening(*answered, streams=streams) as port:
        done = check(environment, "--plan", plan(tmp_path, port), *options)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert str(port if streams or not answered else port + 1) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_port_here_also_says_what_this_machine_lacks(environment, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    done = check(environment | {"PATH": str(tmp_path)}, "--host", "127.0.0.1", "--port", free)
    assert done.returncode == 1
    *notes, error = done.stderr.strip().splitlines()
    assert error.startswith(f"Error: no server listens at 127.0.0.1:{free}")
    assert notes[0].startswith("Note: this machine has no nvidia-smi: CARLA needs the driver of an NVIDIA GPU")


def test_a_refused_port_elsewhere_says_nothing_about_this_machine(environment, tmp_path):
    done = check(environment | {"PATH": str(tmp_path)}, "--host", "nowhere.invalid")
    assert done.returncode == 1
    assert "Note:" not in done.stderr


def slow_inspection(host, port):
    """With a bar that no simulator passes, the embedded one stands for CARLA on a processor."""
    inspection.SLOW = 1e6
    return inspection.inspect(CarlaSettings(host=host, port=port)).advice


def test_slow_ticks_are_usable_and_come_with_advice(simulator, isolated):
    advice = isolated(slow_inspection, simulator.host, simulator.port)
    assert any(
        "ticks per second are very slow: if CARLA renders on the processor, give it a GPU" in note for note in advice
    )


def program(folder, name, *lines, code=0):
    """Stands for a program of the driver, which is not on every machine."""
    file = folder / name
    file.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {code}\n")
    file.chmod(0o755)


GPU = "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-0)"


@pytest.mark.parametrize(
    ("nvidia", "driver", "device", "sentences"),
    [
        ((GPU,), "nvidia_icd.json", "NVIDIA GeForce RTX 4090", []),
        ((GPU,), "nvidia_icd.json", None, []),
        (("No devices were found",), "nvidia_icd.json", None, ["nvidia-smi finds no GPU (No devices were found)"]),
        ((GPU,), "lvp_icd.x86_64.json", None, ["Vulkan knows lvp_icd.x86_64.json", "NVIDIA_DRIVER_CAPABILITIES=all"]),
        ((GPU,), None, None, ["Vulkan knows no driver at all"]),
        ((GPU,), "nvidia_icd.json", "llvmpipe (LLVM 15.0.6)", ["only finds llvmpipe", "draws on the processor"]),
        (None, "nvidia_icd.json", "", ["no nvidia-smi", "vulkaninfo finds no device"]),
    ],
)
def test_what_a_machine_lacks_to_render(tmp_path, monkeypatch, nvidia, driver, device, sentences):
    programs, drivers = tmp_path / "programs", tmp_path / "icd.d"
    programs.mkdir()
    drivers.mkdir()
    if nvidia is not None:
        program(programs, "nvidia-smi", *nvidia)
    if driver is not None:
        (drivers / driver).touch()
    if device is not None:
        program(programs, "vulkaninfo", *([f"\tdeviceName         = {device}"] if device else ["no device"]))
    monkeypatch.setenv("PATH", str(programs))
    told = graphics.missing_here([drivers])
    assert bool(told) == bool(sentences)
    for sentence in sentences:
        assert sentence in " ".join(told)


def test_which_hosts_are_this_machine():
    assert graphics.is_this_machine("127.0.0.1")
    assert graphics.is_this_machine(socket.gethostname())
    assert not graphics.is_this_machine("carla.example.org")
