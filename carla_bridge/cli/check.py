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
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@report_errors
def check(plan: Path | None, host: str | None, port: int | None, simulator: str | None, as_json: bool) -> None:
    """Check a CARLA server: version, map, blueprints and speed. It is left as it was found."""
    from rich.console import Console
    from rich.table import Table

    config = fleet_config(plan, host, port, simulator)
    from carla_bridge.fleet.inspection import inspect
    from carla_bridge.fleet_process.embedded import EmbeddedSimulator

    with ExitStack() as stack:
        if config.embedded:
            server = stack.enter_context(EmbeddedSimulator.start(config))
            config = config.at(server.host, server.port)
        findings = asdict(inspect(config))
    if as_json:
        click.echo(json.dumps(findings))
    else:
        table = Table(show_header=False, title=f"CARLA {findings['version']} at {findings['host']}:{findings['port']}")
        for key, value in findings.items():
            shown = ", ".join(f"{name}: {count}" for name, count in value.items()) if isinstance(value, dict) else value
            table.add_row(key.replace("_", " "), ", ".join(shown) if isinstance(shown, tuple) else str(shown))
        Console().print(table)
    sys.stdout.flush()
    # The client library may abort in its static destructors; nothing is left to do.
    os._exit(0)
