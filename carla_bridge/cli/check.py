"""`carla-bridge check`: tells whether a server is usable."""

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import click

from carla_bridge.cli.options import fleet_config, report_errors, server_options


@click.command()
@server_options
@click.option("--passive", is_flag=True, help="Only look, for health checks: nothing is ticked, spawned or removed.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@report_errors
def check(
    plan: Path | None, host: str | None, port: int | None, simulator: str | None, passive: bool, as_json: bool
) -> None:
    """Check a CARLA server: version, map, blueprints and speed. It is left as it was found.

    Exit code 0 means that a fleet can drive there, 1 that it cannot, with the reason and what to do.
    """
    from rich.console import Console
    from rich.table import Table

    config = fleet_config(plan, host, port, simulator)
    from carla_bridge.errors import ServerUnreachableError
    from carla_bridge.fleet.graphics import is_this_machine, missing_here
    from carla_bridge.fleet.inspection import glance, inspect
    from carla_bridge.fleet_process.embedded import EmbeddedSimulator

    with ExitStack() as stack:
        if config.embedded:
            server = stack.enter_context(EmbeddedSimulator.start(config))
            config = config.at(server.host, server.port)
        try:
            findings = asdict(glance(config) if passive else inspect(config))
        except ServerUnreachableError:
            if is_this_machine(config.host):
                for sentence in missing_here():
                    click.echo(f"Note: {sentence}.", err=True)
            raise
    advice = () if as_json else findings.pop("advice", ())
    if as_json:
        click.echo(json.dumps(findings))
    else:
        table = Table(show_header=False, title=f"CARLA {findings['version']} at {findings['host']}:{findings['port']}")
        for key, value in findings.items():
            shown = ", ".join(f"{name}: {count}" for name, count in value.items()) if isinstance(value, dict) else value
            table.add_row(key.replace("_", " "), ", ".join(shown) if isinstance(shown, tuple) else str(shown))
        Console().print(table)
    for sentence in advice:
        click.echo(f"Note: {sentence}.", err=True)
    sys.stdout.flush()
    # The client library may abort in its static destructors; nothing is left to do.
    os._exit(0)
