"""The `fedagem` command; each subcommand is a file that is imported only when it is used.

Those files import click and little else before their command runs, so that help and mistakes are answered at once.
"""

import importlib
from typing import Any

import click

from fedagem.errors import FedAGemError

COMMANDS = (
    "simulate",
    "run",
    "prepare",
    "compare",
    "watch",
    "report",
    "film",
    "reproduce",
    "work",
    "plan",
    "methods",
    "data",
    "members",
    "evaluate",
    "audit",
    "detect",
    "export",
    "anchors",
)


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"fedagem.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """A file that cannot be read or written is the user's to mend, wherever it turns up."""
        try:
            return super().invoke(ctx)
        except OSError as problem:
            if problem.filename is None:
                raise
            raise FedAGemError(f"{problem.filename}: {problem.strerror}.") from problem


@click.group(cls=_LazyGroup)
@click.version_option(package_name="fedagem")
def main() -> None:
    """Fed-A-GEM: continual federated learning that does not forget, on OpenFL and CARLA."""
    from fedagem.runs.processes import stop_on_sigterm
    from fedagem.system import check_torch_pair

    stop_on_sigterm()
    check_torch_pair()
