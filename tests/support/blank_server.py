"""The simulator without pictures, as a separate process: everything but the renderer is the real thing."""

import asyncio
import logging
import sys

from carla_bridge.simulator.pictures.render_pool import RenderPool
from carla_bridge.simulator.server import SimulatorServer
from carla_bridge.simulator.town.build import build_town
from carla_bridge.simulator.world import World


async def serve(seed: int) -> None:
    town, network = build_town(seed)
    pool = RenderPool("carla_bridge.simulator.pictures.render_jobs:BlankRenderer")
    await pool.start()
    pool.make_renderers()
    server = SimulatorServer(World(town, network, seed), pool)
    await server.start("127.0.0.1", 0)
    print(f"listening on {server.port} {server.stream_port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(serve(int(sys.argv[1])))
