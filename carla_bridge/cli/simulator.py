"""`carla-bridge simulator`: the embedded world that the real CARLA client connects to."""

import click

from carla_bridge.cli.options import report_errors


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
@report_errors
def simulator(host: str, port: int, seed: int) -> None:
    """Serve a small driving world that speaks CARLA 0.9.16's protocol.

    Any CARLA client script that stays within the supported API works against it. Stop it with Ctrl-C or SIGTERM.
    """
    from carla_bridge.fleet_process.simulator_server import serve_simulator

    serve_simulator(host, port, seed)
