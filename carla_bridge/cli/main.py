"""`carla-bridge`: each command is a module of `carla_bridge.cli`, imported only when it is needed."""

import importlib

import click

COMMANDS = ("check", "preview", "record", "serve", "simulator", "stats")
"""Command `x` is the function `x` in the module `carla_bridge.cli.x`."""


class LazyGroup(click.Group):
    """A group that imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = getattr(importlib.import_module(f"carla_bridge.cli.{cmd_name}"), cmd_name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Drive, record and serve CARLA vehicles; without a CARLA server, in an embedded simulator."""


if __name__ == "__main__":
    main()
