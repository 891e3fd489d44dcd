"""`fedagem methods`: what each method is, needs, exchanges and keeps, with its settings."""

from __future__ import annotations

import click


@click.command(name="methods")
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """The continual-learning methods: all of them, or those NAMES (one's own by the dotted path of its class).

    Every method runs alone or with Fed-A-GEM: task_runner.settings.fedagem, or `+fedagem` in --methods.
    """
    import dataclasses
    import json
    import shutil
    import textwrap

    from fedagem.learning.methods import METHODS
    from fedagem.learning.methods.description import describe

    found = [describe(name) for name in names or METHODS]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(method) for method in found], indent=2))
        return
    width = min(shutil.get_terminal_size().columns, 100)
    for method in found:
        click.echo(textwrap.fill(f"{method.name}: {method.what}", width, subsequent_indent="  "))
        for title, text in method.lines():
            indent = "  " + f"{title}:".ljust(12)
            click.echo(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=" " * 14))
        click.echo()
