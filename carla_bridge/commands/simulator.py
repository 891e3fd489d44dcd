"""`carla-bridge simulator`: the embedded world that the real CARLA client connects to."""

import asyncio
import errno
import logging
import resource
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from carla_bridge.errors import BridgeError
from carla_bridge.requirements import require_simulator

if TYPE_CHECKING:
    from carla_bridge.simulator.server import SimulatorServer

WANTED_FILES = 8192
STOPPED = "Simulator stopped."


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=2000,
    show_default=True,
    type=click.IntRange(0, 65534),
    help="RPC port; the streams use the next one. 0 takes free ports.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**31 - 1), help="Houses, trees, traffic.")
def simulator(host: str, port: int, seed: int) -> None:
    """Serve a small driving world that speaks CARLA 0.9.16's protocol.

    Any CARLA client script that stays within the supported API works against it. Stop it with Ctrl-C or SIGTERM.
    """
    try:
        require_simulator()
    except BridgeError as error:
        raise click.ClickException(str(error)) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the event loop handles both
    try:
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
        _allow_many_connections()
        asyncio.run(_serve_until_stopped(host, port, seed))
    except KeyboardInterrupt:
        click.echo(STOPPED)


async def _serve_until_stopped(host: str, port: int, seed: int) -> None:
    """Signals count from the first moment on, though what is being made when one comes is finished first."""
    task = asyncio.current_task()
    assert task is not None
    _at_signals(_stop, task)
    try:
        await _serve(host, port, seed)
    except asyncio.CancelledError:
        click.echo(STOPPED)


def _stop(task: "asyncio.Task[None]") -> None:
    _at_signals(lambda: None)  # who asks twice does not disturb the tidying up
    task.cancel()


def _at_signals(action: Callable[..., object], *arguments: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, action, *arguments)


async def _serve(host: str, port: int, seed: int) -> None:
    from carla_bridge.simulator.errors import RendererLostError
    from carla_bridge.simulator.server import SimulatorServer
    from carla_bridge.simulator.studio import Studio
    from carla_bridge.simulator.town import build_town
    from carla_bridge.simulator.world import World

    studio = Studio("carla_bridge.simulator.renderer:PandaRenderer")
    server = None
    try:
        await studio.open()
        town, network = build_town(seed)
        studio.furnish(town)
        server = SimulatorServer(World(town, network, seed), studio)
        await _listen(server, host, port)
        click.echo(f"Simulator of CARLA 0.9.16 listening on {host}:{server.port}, seed {seed}.")
        await server.serve_forever()
    except RendererLostError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if server is None:
            studio.close()
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
        raise click.ClickException(
            f"cannot listen on {host}:{port} and the port after it: {error.strerror or error}. {advice}"
        ) from error


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
