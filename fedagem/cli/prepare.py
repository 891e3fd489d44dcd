"""`fedagem prepare`: the complete driving plan in an OpenFL workspace, for a federation that is started with `fx`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="prepare")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    required=True,
    help="The OpenFL workspace to write the plan into; a folder that does not exist becomes one.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds in all, instead of the plan's number.")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the run, instead of the plan's.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Change one setting of the plan.")
def command(plan: Path, workspace: Path, rounds: int | None, seed: int | None, assignments: tuple[str, ...]) -> None:
    """Record the evaluation frames of the driving plan PLAN, warm its model up, and write it complete for `fx`.

    This is what `fedagem run` does before its rounds. What has been recorded or warmed up here before is used again.
    """
    from fedagem.errors import PlanError
    from fedagem.plans.checks import check_plan, check_snippet_paths, with_located_model
    from fedagem.plans.driving import DrivingSettings
    from fedagem.plans.plan import Plan
    from fedagem.plans.workspace import find_plan
    from fedagem.runs.by_hand import check_workspace, write_workspace
    from fedagem.runs.preparation import as_prepared, check_preparable, prepare, warm_up

    requested = Plan.load(find_plan(plan)).changed(assignments=assignments, seed=seed, rounds=rounds)
    if not isinstance(requested.data, DrivingSettings):
        raise PlanError(
            f"{plan} is no driving plan and has nothing to prepare: write it with `fedagem plan write {plan}`."
        )
    for check in (check_plan, check_snippet_paths, check_preparable):
        check(requested)
    requested = with_located_model(requested)
    check_workspace(workspace, as_prepared(requested))
    complete = warm_up(prepare(requested, live=True))
    click.echo(f"plan:    {write_workspace(workspace, complete)}")
    click.echo(f"model:   {complete.training.initial_model or 'made by `fx plan initialize`'}")
    assert isinstance(complete.data, DrivingSettings)
    for domain, paths in complete.data.evaluation.paths.items():
        click.echo(f"frames:  {domain}: {', '.join(paths)}")
