"""`fedagem plan`: what a plan says, as a table, as a schema for editors, and as the complete plan for `fx`."""

from __future__ import annotations

from pathlib import Path

import click


@click.group(name="plan")
def command() -> None:
    """Show, describe and complete plans."""


@command.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
def show(plan: Path, assignments: tuple[str, ...]) -> None:
    """Every setting in force in PLAN: its value, where the value comes from, and what it means.

    A value comes from the plan, from the base that all plans share, from --set, from other settings (derived), or is
    the default.
    """
    import shutil
    import textwrap

    from fedagem.plans.description import settings_in_force
    from fedagem.plans.workspace import find_plan

    width = min(shutil.get_terminal_size().columns, 120)
    for setting in settings_in_force(find_plan(plan), assignments):
        click.echo(f"{setting.path}: {setting.value}  # {setting.origin}")
        click.echo(textwrap.fill(setting.sentence, width, initial_indent="    ", subsequent_indent="    "))


@command.command()
def schema() -> None:
    """The JSON schema of plans, with which editors complete and check them."""
    import json

    from fedagem.plans.description import plan_schema

    click.echo(json.dumps(plan_schema(), indent=2))


@command.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the run, instead of the plan's.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds in all, instead of the plan's number.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
def write(plan: Path, seed: int | None, rounds: int | None, assignments: tuple[str, ...]) -> None:
    """The complete PLAN, as `fx` and the processes of a run need it."""
    from fedagem.plans.checks import check_plan
    from fedagem.plans.plan import Plan
    from fedagem.plans.workspace import find_plan

    complete = Plan.load(find_plan(plan)).changed(assignments=assignments, seed=seed, rounds=rounds)
    check_plan(complete)
    click.echo(complete.to_yaml(), nl=False)


@command.command()
def reference() -> None:
    """Every setting of every section, as docs/plan.md has it."""
    from fedagem.plans.description import reference as text

    click.echo(text(), nl=False)
