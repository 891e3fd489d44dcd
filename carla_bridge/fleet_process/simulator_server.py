"""Serves the embedded simulator until a signal ends it.

Run as a module, this is the child process of `EmbeddedSimulator`: it also ends when its standard input closes, which
happens however the parent dies.
"""

import asyncio
import errno
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from carla_bridge.errors import BridgeError
from carla_bridge.requirements import require_simulator

if TYPE_CHECKING:
    from carla_bridge.simulator.server import SimulatorServer

WANTED_FILES = 8192
STOPPED = "Simulator stopped."
STOP_SECONDS = 15.0
"""How long a clean-up may take after the parent is gone."""


def serve_simulator(host: str, port: int, seed: int) -> None:
    """Listen until SIGINT or SIGTERM; port 0 takes free ports, which the first line of output names."""
    require_simulator()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the event loop handles both
    try:
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
        _allow_many_connections()
        asyncio.run(_serve_until_stopped(host, port, seed))
    except KeyboardInterrupt:
        print(STOPPED)


async def _serve_until_stopped(host: str, port: int, seed: int) -> None:
    """Stop at a signal, even one that comes while the world is being built: the step under way is finished first."""
    task = asyncio.current_task()
    assert task is not None
    _at_signals(_stop, task)
    try:
        await _serve(host, port, seed)
    except asyncio.CancelledError:
        print(STOPPED)


def _stop(task: "asyncio.Task[None]") -> None:
    _at_signals(lambda: None)  # a second signal must not disturb the clean-up
    task.cancel()


def _at_signals(action: Callable[..., object], *arguments: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, action, *arguments)


async def _serve(host: str, port: int, seed: int) -> None:
    from carla_bridge.simulator.errors import RendererLostError
    from carla_bridge.simulator.pictures.render_pool import RenderPool
    from carla_bridge.simulator.server import SimulatorServer
    from carla_bridge.simulator.town.build import build_town
    from carla_bridge.simulator.world import World

    pool = RenderPool("carla_bridge.simulator.rendering.renderer:PandaRenderer")
    server = None
    try:
        await pool.start()
        town, network = build_town(seed)
        pool.make_renderers(town)
        server = SimulatorServer(World(town, network, seed), pool)
        await _listen(server, host, port)
        print(f"Simulator of CARLA 0.9.16 listening on {host}:{server.port}, seed {seed}.", flush=True)
        await server.serve_forever()
    except RendererLostError as error:
        raise BridgeError(str(error)) from error
    finally:
        if server is None:
            pool.close()
        else:
            await server.stop()


async def _listen(server: "SimulatorServer", host: str, port: int) -> None:
    try:
        await server.start(host, port)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            advice = "Choose another port with --port, or stop what uses it."
        else:
            advice = "Give --host an address of this machine, such as 127.0.0.1."
        raise BridgeError(
            f"cannot listen on {host}:{port} and the port after it: {error.strerror or error}. {advice}"
        ) from error


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _serve_until_parent_ends(seed: int) -> None:
    def watch() -> None:
        while os.read(0, 1):  # a read of sys.stdin would hold an interpreter lock at the end
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve_simulator("127.0.0.1", 0, seed)
    except BridgeError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    _serve_until_parent_ends(int(sys.argv[1]))
