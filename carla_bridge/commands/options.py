"""Options that several commands share, and how a command ends when the user made a mistake."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from carla_bridge.config import FleetConfig
from carla_bridge.errors import BridgeError
from carla_bridge.plan_section import parse_config, read_plan
from carla_bridge.requirements import require_client, require_simulator
from carla_bridge.signals import termination_raises
from carla_bridge.snippets import SnippetError

P = ParamSpec("P")
R = TypeVar("R")


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the server is; all of them win over the plan."""
    for option in reversed(
        (
            click.option("--plan", type=click.Path(path_type=Path), help="Plan whose 'carla' section to use."),
            click.option("--host", help="Host of a CARLA server."),
            click.option("--port", type=click.IntRange(1, 65535), help="Its RPC port; CARLA's default is 2000."),
            click.option("--simulator", type=click.Choice(["embedded"]), help="Start the embedded simulator instead."),
        )
    ):
        command = option(command)
    return command


def fleet_config(
    plan: Path | None, host: str | None, port: int | None, simulator: str | None, **settings: Any
) -> FleetConfig:
    """The plan's section with what the command line says on top, checked as a whole and ready to be driven."""
    section = read_plan(plan) if plan is not None else {}
    if host is not None and simulator is not None:
        raise click.UsageError("--host and --simulator exclude each other.")
    if host is not None or port is not None:
        section = {**section, "simulator": None}
    if simulator is not None:
        section = {**section, "host": None, "port": None}
    given = {"host": host, "port": port, "simulator": simulator, **settings}
    config = parse_config({**section, **{key: value for key, value in given.items() if value is not None}})
    require_client()
    if config.server.embedded:
        require_simulator()
    return config


def one_sentence(command: Callable[P, R]) -> Callable[P, R]:
    """A user's mistake or a lost server ends in one line and exit code 1; termination cleans up on the way."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with termination_raises():
                return command(*args, **kwargs)
        except (BridgeError, SnippetError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error

    return guarded
