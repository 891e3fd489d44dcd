"""Options that several commands share, and how a command ends after a user's mistake.

Everything heavy is imported when a command runs, so that `--help` answers at once.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from carla_bridge.errors import BridgeError, SnippetError
from carla_bridge.requirements import require_client, require_simulator
from carla_bridge.termination import termination_raises

if TYPE_CHECKING:
    from carla_bridge.config.section import CarlaSettings

P = ParamSpec("P")
R = TypeVar("R")


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the server is; each of them overrides the plan."""
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
) -> "CarlaSettings":
    """The plan's section with the options of the command line in place of its settings, checked as a whole."""
    from carla_bridge.config.plan_file import parse_config, read_plan

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
    if config.embedded:
        require_simulator()
    return config


def report_errors(command: Callable[P, R]) -> Callable[P, R]:
    """End a command after a user's mistake or a lost server with one sentence and exit code 1.

    SIGTERM raises SystemExit meanwhile, so that `with` blocks clean up.
    """

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
