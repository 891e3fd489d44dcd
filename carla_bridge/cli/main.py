"""`carla-bridge`: each command is a module of `carla_bridge.cli`, imported only when it is needed."""

import importlib
import keyword

import click

COMMANDS = ("check", "export", "import", "preview", "record", "serve", "simulator", "stats")
"""Command `x` is the function `x` in the module `carla_bridge.cli.x`, or `x_` if Python keeps the word to itself."""


class LazyGroup(click.Group):
    """A group that imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        found = getattr(importlib.import_module(f"carla_bridge.cli.{name}"), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Drive, record and serve CARLA vehicles; without a CARLA server, in an embedded simulator."""


if __name__ == "__main__":
    main()
