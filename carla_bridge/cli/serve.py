"""`carla-bridge serve`: streams frames to the collaborators."""

import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import click

from carla_bridge.cli.options import fleet_config, report_errors, server_options

PROGRESS_SECONDS = 5.0


@click.command()
@server_options
@click.option("--listen", metavar="HOST:PORT", help="Where collaborators connect; port 0 takes a free one.")
@click.option(
    "--ready-file", type=click.Path(path_type=Path), help="File to write HOST:PORT to once the server listens."
)
@click.option("--events", type=click.Path(path_type=Path), help="File to append events to, as JSON lines.")
@report_errors
def serve(
    plan: Path | None,
    host: str | None,
    port: int | None,
    simulator: str | None,
    listen: str | None,
    ready_file: Path | None,
    events: Path | None,
) -> None:
    """Drive the plan's vehicles and stream each collaborator the annotated frames of its vehicle, on request.

    Collaborators of this machine and user find the token that it makes; CARLA_BRIDGE_TOKEN, if all of them have it,
    replaces it. To listen beyond this machine, run it in an OpenFL workspace, whose certificates are used for TLS.
    """
    from dataclasses import asdict

    from carla_bridge.errors import ConfigError
    from carla_bridge.fleet_process.process import FleetProcess
    from carla_bridge.packets import Gap
    from carla_bridge.stream.server import StreamServer
    from fedagem.files import write_file

    config = fleet_config(plan, host, port, simulator)
    if listen is not None:
        name, _, number = listen.rpartition(":")
        if not name or not number.isdecimal() or int(number) > 65535:
            raise ConfigError(f"--listen is {listen!r}, not HOST:PORT")
        stream = config.stream.model_copy(update={"host": name.strip("[]"), "port": int(number)})
        config = config.model_copy(update={"stream": stream})

    def note(text: str, **details: object) -> None:
        click.echo(text, err=True)
        if events is not None:
            with events.open("a") as file:
                file.write(json.dumps({"wall_time": time.time(), "event": text, **details}) + "\n")

    fleet = FleetProcess(config, on_event=note, on_repeat=_now_and_then())
    with closing(StreamServer(fleet)) as server, fleet:

        def note_gap(gap: Gap) -> None:
            server.retention.add_gap(gap)
            note("gap", **asdict(gap))

        fleet.on_gap(note_gap)
        address = "{}:{}".format(*server.address)
        names = ", ".join(vehicle.name for vehicle in config.vehicles)
        note(f"serving {names} in {fleet.map_name} at {address}; the world waits until a collaborator asks for frames")
        if ready_file is not None:
            write_file(ready_file, address)
        with suppress(KeyboardInterrupt):
            server.run()


def _now_and_then() -> Callable[[float], None]:
    """Prints how far a drive has been repeated, every few seconds."""
    last = time.monotonic()

    def show(second: float) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            click.echo(f"driving again: at second {second:g}", err=True)

    return show
