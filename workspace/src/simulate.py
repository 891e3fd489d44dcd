"""A whole federation in one process, without sockets: the same aggregator, collaborators and task runner.

All clients share one worker, so memory grows with their buffers and not with their models. Run it inside a
workspace: `python -m src.simulate`.
"""

import sys
from pathlib import Path
from typing import Any

import click
from openfl.federated import Plan
from openfl.utilities.logging import setup_logger

from src.aggregator import StagedAggregator
from src.collaborator import StagedCollaborator
from src.link import LocalLink


def build_federation(plan: Plan) -> tuple[StagedAggregator, list[StagedCollaborator]]:
    """An aggregator and its collaborators, connected directly."""
    names: list[str] = plan.authorized_cols
    loader = plan.get_data_loader(names[0])
    first_runner = plan.get_task_runner(loader)
    initial = {name: array.copy() for name, array in first_runner.get_tensor_dict().items()}
    aggregator = plan.get_aggregator(tensor_dict=initial)
    aggregator.poll_seconds = 0
    collaborators = []
    for name in names:
        runner = first_runner
        if name != names[0]:
            runner = first_runner.for_loader(loader.for_client(plan.cols_data_paths[name]))
        collaborators.append(_build_collaborator(plan, name, runner, LocalLink(aggregator, name)))
    return aggregator, collaborators


def run_rounds(collaborators: list[StagedCollaborator]) -> None:
    """Let everybody take turns until the federation is over."""
    active = list(collaborators)
    while active:
        active = [collaborator for collaborator in active if collaborator.step()]


def main() -> None:
    """Simulate the federation of the workspace in the current directory."""
    setup_logger("info")
    plan = Plan.parse(Path("plan/plan.yaml"), Path("plan/cols.yaml"), Path("plan/data.yaml"))
    _, collaborators = build_federation(plan)
    run_rounds(collaborators)


def _build_collaborator(plan: Plan, name: str, runner: Any, link: LocalLink) -> StagedCollaborator:
    section = plan.config["collaborator"]
    collaborator: StagedCollaborator = Plan.build(
        section["template"],
        dict(section["settings"]),
        collaborator_name=name,
        aggregator_uuid=plan.aggregator_uuid,
        federation_uuid=plan.federation_uuid,
        client=link,
        task_runner=runner,
        task_config=plan.config["tasks"],
        compression_pipeline=plan.get_tensor_pipe(),
        callbacks=[],
    )
    return collaborator


if __name__ == "__main__":
    try:
        main()
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
