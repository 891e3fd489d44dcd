"""The processes that draw: they end with the server, and the server says so when one of them ends."""

import carla
import psutil
import pytest

from tests.support.carla_client import at, blueprint, connect, listening
from tests.support.simulator_command import PATIENCE, port_of, simulator, workers_of

pytest_plugins = ("tests.support.simulator_servers",)


def take_one_picture(port):
    _, world = connect(port)
    camera = world.spawn_actor(
        blueprint(world, "sensor.camera.rgb", image_size_x=64, image_size_y=40), carla.Transform()
    )
    with listening(camera) as (images,):
        return at(images, world.tick()).width


@pytest.mark.parametrize("drawing", [False, True], ids=["while they build", "after a picture"])
def test_a_killed_server_leaves_no_process_behind(client_home, isolated, drawing):
    with simulator("--port", "0") as process:
        port = port_of(process)
        workers = workers_of(process)
        if drawing:
            assert isolated(take_one_picture, port) == 64
        process.kill()
        assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []


@pytest.mark.parametrize("drawing", [False, True], ids=["while they build", "after a picture"])
def test_a_drawing_process_that_dies_ends_the_server_with_one_sentence(client_home, isolated, drawing):
    with simulator("--port", "0") as process:
        port = port_of(process)
        victim, other = workers_of(process)
        if drawing:
            assert isolated(take_one_picture, port) == 64
        victim.kill()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert errors.strip() == (
            "Error: a process that draws pictures has ended (exit code -9); start the simulator again."
        )
        assert not other.is_running()


def test_a_renderer_that_cannot_be_made_is_reported(client_home):
    with simulator(module="tests.support.failing_server") as process:
        _, errors = process.communicate(timeout=PATIENCE)
        assert "RendererLostError: a process that draws pictures has ended (no paint; buy some)" in errors
