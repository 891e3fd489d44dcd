"""Batches of which something fails: every command has its own answer, in a shape that the client understands."""

import asyncio
import logging

import carla
import pytest

from carla_bridge.simulator.pictures.render_pool import RenderPool
from carla_bridge.simulator.protocol import batches
from carla_bridge.simulator.protocol.actor_methods import ActorMethods
from carla_bridge.simulator.server import SimulatorServer
from carla_bridge.simulator.town.build import build_town
from carla_bridge.simulator.world import World
from tests.support.carla_client import blueprint, connect, fresh

pytest_plugins = ("tests.support.simulator_servers",)


def break_down(*_):
    raise ArithmeticError("broken on purpose")


async def serve_to(scene, isolated):
    """Serve in this process, where things can be broken, while a client in another plays its scene."""
    pool = RenderPool("carla_bridge.simulator.pictures.render_jobs:BlankRenderer")
    await pool.start()
    pool.make_renderers()
    server = SimulatorServer(World(*build_town(0), 0), pool)
    await server.start("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve_forever())
    try:
        await asyncio.to_thread(isolated, scene, server.port)
    finally:
        serving.cancel()
        await server.stop()


def send_commands(port):
    client, world = connect(port)
    world = fresh(client)
    command, place = carla.command, world.get_map().get_spawn_points()[8]
    spawn = command.SpawnActor(blueprint(world, "vehicle.audi.tt"), place)
    [spawned] = client.apply_batch_sync([spawn.then(command.ApplyTransform(command.FutureActor, place))], True)
    assert not spawned.error, "the actor is there, whatever became of what follows"
    car = world.get_actor(spawned.actor_id)
    answers = client.apply_batch_sync(
        [
            command.ApplyTransform(car.id, place),
            command.ApplyVehicleControl(car.id, carla.VehicleControl(throttle=1.0)),
        ],
        True,
    )
    assert [answer.error for answer in answers] == ["internal error in this command", ""]
    for _ in range(10):
        world.tick()
    assert car.get_velocity().length() > 0.5, "the commands after the broken one are carried out"


def walk(port):
    """The client's navigation sends a batch with every tick."""
    client, world = connect(port)
    world = fresh(client)
    place = world.get_random_location_from_navigation()
    walker = world.spawn_actor(blueprint(world, "walker.pedestrian.0001"), carla.Transform(place + carla.Location(z=1)))
    world.tick()
    controller = world.spawn_actor(blueprint(world, "controller.ai.walker"), carla.Transform(), walker)
    world.tick()
    controller.start()
    controller.go_to_location(world.get_random_location_from_navigation())
    for _ in range(20):
        world.tick()


@pytest.mark.parametrize(
    ("owner", "name", "scene"),
    [(ActorMethods, "set_actor_transform", send_commands), (batches, "steer_walker", walk)],
    ids=["a command", "a walker"],
)
def test_a_command_that_breaks_spoils_no_other(owner, name, scene, isolated, monkeypatch, caplog, client_home):
    monkeypatch.setattr(owner, name, break_down)
    asyncio.run(serve_to(scene, isolated))
    broken = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert broken, "the log tells what was broken"
    assert all("broken on purpose" in str(record.exc_info) for record in broken)


def send_while_broken(port):
    client, world = connect(port, synchronous=False)
    command, place = carla.command, world.get_map().get_spawn_points()[8]
    spawn = command.SpawnActor(blueprint(world, "vehicle.audi.tt"), place)
    answers = client.apply_batch_sync([spawn, spawn, spawn])
    assert [answer.error for answer in answers] == ["internal error in apply_batch"] * 3
    assert client.get_server_version() == "0.9.16"


def test_a_batch_that_cannot_be_run_is_answered_command_by_command(isolated, monkeypatch, client_home):
    monkeypatch.setattr("carla_bridge.simulator.protocol.world_methods.run_batch", break_down)
    asyncio.run(serve_to(send_while_broken, isolated))


def send_too_much(port):
    client, world = connect(port, synchronous=False)
    push = carla.command.ApplyTransform(world.get_spectator().id, carla.Transform())
    answers = client.apply_batch_sync([push] * (batches.LARGEST_BATCH + 1))
    assert len(answers) == batches.LARGEST_BATCH + 1
    assert {answer.error for answer in answers} == {
        "a batch of 20001 commands would keep other clients waiting: send at most 20000 at once"
    }
    answers = client.apply_batch_sync([push] * batches.LARGEST_BATCH)
    assert {answer.error for answer in answers} == {""}


def test_a_batch_that_would_keep_other_clients_waiting_is_refused(blank_server, isolated):
    isolated(send_too_much, blank_server.port)
