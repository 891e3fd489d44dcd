"""Where something in the world goes wrong, the world goes on."""

import asyncio

import carla

from carla_bridge.simulator.pictures.render_pool import RenderPool
from carla_bridge.simulator.server import SimulatorServer
from carla_bridge.simulator.town.build import build_town
from carla_bridge.simulator.world import World
from tests.support.carla_client import at, blueprint, connect, fresh, listening

pytest_plugins = ("tests.support.simulator_servers",)


def far_away(port):
    """Out of the world with a GNSS on board."""
    client, world = connect(port)
    world = fresh(client)
    settings = world.get_settings()
    settings.fixed_delta_seconds = 0.2
    world.apply_settings(settings)
    car = world.spawn_actor(blueprint(world, "vehicle.audi.tt"), world.get_map().get_spawn_points()[0])
    car.enable_constant_velocity(carla.Vector3D(9.9e6, 0, 0))
    gnss = world.spawn_actor(blueprint(world, "sensor.other.gnss"), carla.Transform(), attach_to=car)
    with listening(gnss) as (data,):
        for _ in range(3000):
            frame = world.tick()
        at(data, frame)


def test_a_vehicle_beyond_all_maps_does_not_stop_the_world(new_server, isolated):
    isolated(far_away, new_server().port)


def test_a_world_that_fails_once_goes_on(caplog):
    """Asynchronous: no client asks for ticks, so none can be told of a failure."""
    world = World(*build_town(0), 0)
    advance, failures, went_on = world.advance, iter([True, True]), asyncio.Event()

    def fail_twice():
        if next(failures, False):
            raise ArithmeticError
        went_on.set()
        return advance()

    world.advance = fail_twice  # type: ignore[method-assign]

    async def run():
        pool = RenderPool("carla_bridge.simulator.pictures.render_jobs:BlankRenderer")
        await pool.start()
        server = SimulatorServer(world, pool)
        await server.start("127.0.0.1", 0)
        serving = asyncio.create_task(server.serve_forever())
        await went_on.wait()
        serving.cancel()
        await server.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert len(caplog.records) == 1, "logged once, not at every tick"
