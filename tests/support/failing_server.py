"""A simulator whose renderer cannot be made, as a separate process."""

import asyncio

from carla_bridge.simulator.pictures.render_pool import RenderPool
from carla_bridge.simulator.scene import Renderer
from carla_bridge.simulator.server import SimulatorServer
from carla_bridge.simulator.town.build import build_town
from carla_bridge.simulator.world import World


async def serve() -> None:
    pool = RenderPool("tests.support.failing_server:no_renderer")
    await pool.start()
    pool.make_renderers()
    server = SimulatorServer(World(*build_town(0), 0), pool)
    await server.start("127.0.0.1", 0)
    try:
        await server.serve_forever()
    finally:
        await server.stop()


def no_renderer() -> Renderer:
    raise RuntimeError("no paint;\nbuy some")


if __name__ == "__main__":
    asyncio.run(serve())
