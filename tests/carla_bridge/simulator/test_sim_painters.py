"""The processes that draw: they end with the server, and the server says so when one of them ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import carla
import psutil
import pytest

from tests.carla_bridge.simulator.client_tools import at, blueprint, connect, listening

pytest_plugins = ("tests.carla_bridge.simulator.servers",)
PATIENCE = 60.0
HERE = Path(__file__).parent


@contextmanager
def simulator(*command: str):
    process = subprocess.Popen(
        [sys.executable, *(command or ("-m", "carla_bridge.cli", "simulator", "--port", "0"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[2]), "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def port_of(process) -> int:
    return int(process.stdout.readline().split(":")[1].split(",")[0])


def painters_of(process) -> list[psutil.Process]:
    """The drawing processes, as soon as there are all of them."""
    end = time.monotonic() + PATIENCE
    found: list[psutil.Process] = []
    while len(found) < 2:
        assert time.monotonic() < end, "no drawing processes were started"
        time.sleep(0.01)
        found = psutil.Process(process.pid).children()
    return found


def take_one_picture(port):
    _, world = connect(port)
    camera = world.spawn_actor(
        blueprint(world, "sensor.camera.rgb", image_size_x=64, image_size_y=40), carla.Transform()
    )
    with listening(camera) as (images,):
        return at(images, world.tick()).width


@pytest.mark.parametrize("drawing", [False, True], ids=["while they build", "after a picture"])
def test_a_killed_server_leaves_no_process_behind(client_home, isolated, drawing):
    with simulator() as process:
        port = port_of(process)
        painters = painters_of(process)
        if drawing:
            assert isolated(take_one_picture, port) == 64
        process.kill()
        assert psutil.wait_procs(painters, timeout=PATIENCE)[1] == []


@pytest.mark.parametrize("drawing", [False, True], ids=["while they build", "after a picture"])
def test_a_drawing_process_that_dies_ends_the_server_with_one_sentence(client_home, isolated, drawing):
    with simulator() as process:
        port = port_of(process)
        victim, other = painters_of(process)
        if drawing:
            assert isolated(take_one_picture, port) == 64
        victim.kill()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert errors.strip() == (
            "Error: a process that draws pictures has ended (exit code -9); start the simulator again."
        )
        assert not other.is_running()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_does_not_wait_for_the_renderer(client_home, number):
    with simulator() as process:
        port_of(process)
        painters = painters_of(process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")
        assert not any(painter.is_running() for painter in painters)


def test_a_renderer_that_cannot_be_made_is_reported(client_home):
    with simulator(str(HERE / "hopeless_server.py")) as process:
        _, errors = process.communicate(timeout=PATIENCE)
        assert "RendererLostError: a process that draws pictures has ended (no paint; buy some)" in errors
