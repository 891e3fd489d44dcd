"""A whole federation on one machine, without sockets: the same aggregator, collaborators and task runner.

All clients of a process share one model, so memory grows with their buffers and not with their models. Run it inside
a workspace: `python -m src.simulate [--workers N]`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from openfl.federated import Plan
from openfl.utilities.dataloading import initialize_minimal_dataloader
from openfl.utilities.logging import setup_logger

from fedagem.runs.folder import plan_of_run
from src.aggregator import StagedAggregator
from src.collaborator import StagedCollaborator
from src.link import Link, LocalLink
from src.workers import WorkerPool


def build_federation(plan: Plan) -> tuple[StagedAggregator, list[StagedCollaborator]]:
    """An aggregator and its collaborators, connected directly."""
    names: list[str] = plan.authorized_cols
    runner = plan.get_task_runner(plan.get_data_loader(names[0]))
    aggregator = _build_aggregator(plan, runner)
    collaborators = _build_collaborators(plan, names, runner, lambda name: LocalLink(aggregator, name))
    return aggregator, list(collaborators.values())


def run_rounds(collaborators: list[StagedCollaborator]) -> None:
    """Let everybody take turns until the federation is over."""
    active = list(collaborators)
    while active:
        active = [collaborator for collaborator in active if collaborator.step()]


def run_in_parallel(plan: Plan, workers: int) -> None:
    """Spread the clients over worker processes; this one keeps the aggregator and needs no data."""
    aggregator = _build_aggregator(plan, plan.get_task_runner(initialize_minimal_dataloader(plan)))
    WorkerPool(aggregator, plan.authorized_cols, workers, build_some).run()


def build_some(names: list[str], link_of: Callable[[str], Link]) -> dict[str, StagedCollaborator]:
    """The collaborators of a worker process, of the workspace in the current directory."""
    plan = _parse_plan()
    runner = plan.get_task_runner(plan.get_data_loader(names[0]))
    return _build_collaborators(plan, names, runner, link_of)


@click.command()
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Processes, each with some of the clients.")
def main(workers: int) -> None:
    """Simulate the federation of the workspace in the current directory."""
    plan = _parse_plan()
    if workers > 1:
        run_in_parallel(plan, min(workers, len(plan.authorized_cols)))
    else:
        run_rounds(build_federation(plan)[1])


def _parse_plan() -> Plan:
    setup_logger("info")
    return Plan.parse(Path("plan/plan.yaml"), Path("plan/cols.yaml"), Path("plan/data.yaml"))


def _build_aggregator(plan: Plan, runner: Any) -> StagedAggregator:
    initial = {name: array.copy() for name, array in runner.get_tensor_dict().items()}
    aggregator: StagedAggregator = plan.get_aggregator(tensor_dict=initial)
    aggregator.poll_seconds = 0
    return aggregator


def _build_collaborators(
    plan: Plan, names: list[str], first_runner: Any, link_of: Callable[[str], Link]
) -> dict[str, StagedCollaborator]:
    """Collaborators that share the first one's model and data set."""
    collaborators = {}
    for name in names:
        runner = first_runner
        if name != names[0]:
            runner = first_runner.for_loader(first_runner.data_loader.for_client(plan.cols_data_paths[name]))
        collaborators[name] = _build_collaborator(plan, name, runner, link_of(name))
    return collaborators


def _build_collaborator(plan: Plan, name: str, runner: Any, link: Link) -> StagedCollaborator:
    followed = plan_of_run(Path())
    collaborator: StagedCollaborator = Plan.build(
        followed.template_of("collaborator"),
        followed.collaborator.model_dump(),
        collaborator_name=name,
        aggregator_uuid=plan.aggregator_uuid,
        federation_uuid=plan.federation_uuid,
        client=link,
        task_runner=runner,
        task_config={task: chosen.model_dump(exclude_unset=True) for task, chosen in followed.tasks.items()},
        compression_pipeline=plan.get_tensor_pipe(),
        callbacks=[],
    )
    return collaborator


if __name__ == "__main__":
    main()
