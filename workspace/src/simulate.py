"""A whole federation on one machine, without sockets: the same aggregator, collaborators and task runner.

All clients of a process share one model, so memory grows with their buffers and not with their models. Run it inside
a workspace: `python -m src.simulate [--workers N]`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from openfl.federated import Plan
from openfl.utilities.dataloading import initialize_minimal_dataloader
from openfl.utilities.logging import setup_logger

from fedagem.learning.device import DEVICE_VARIABLE
from src.aggregator import StagedAggregator
from src.clients import Clients
from src.link import Link, LocalLink
from src.workers import WorkerPool


def build_federation(plan: Plan) -> tuple[StagedAggregator, Clients]:
    """An aggregator and its clients, connected directly."""
    clients = Clients(plan, plan.authorized_cols, lambda name: LocalLink(aggregator, name))
    aggregator = _build_aggregator(plan, clients.runner)
    return aggregator, clients


def run_rounds(aggregator: StagedAggregator, clients: Clients) -> None:
    """Let everybody take turns until the federation is over."""
    names = set(clients.names)
    while (name := aggregator.wait_for_work(names)) is not None:
        clients.named(name).step()


def run_in_parallel(plan: Plan, devices: list[str | None]) -> None:
    """Spread the clients over worker processes, one for each device; this one keeps the aggregator, without data."""
    os.environ[DEVICE_VARIABLE] = "cpu"  # nothing is computed here: the devices belong to the workers
    aggregator = _build_aggregator(plan, plan.get_task_runner(initialize_minimal_dataloader(plan)))
    WorkerPool(aggregator, plan.authorized_cols, devices, build_some).run()


def build_some(names: list[str], link_of: Callable[[str], Link]) -> Clients:
    """The clients of a worker process, of the workspace in the current directory."""
    return Clients(_parse_plan(), names, link_of)


@click.command()
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Processes, each with some of the clients.")
@click.option(
    "--device", "devices", multiple=True, help="A device for `--workers` processes; several share the clients."
)
def main(workers: int, devices: tuple[str, ...]) -> None:
    """Simulate the federation of the workspace in the current directory."""
    plan = _parse_plan()
    own = os.environ.get(DEVICE_VARIABLE)
    places = [device for _ in range(workers) for device in devices or (own,)][: len(plan.authorized_cols)]
    if len(places) > 1:
        run_in_parallel(plan, places)
    else:
        if places[0] is not None:
            os.environ[DEVICE_VARIABLE] = places[0]
        run_rounds(*build_federation(plan))


def _parse_plan() -> Plan:
    setup_logger("info")
    return Plan.parse(Path("plan/plan.yaml"), Path("plan/cols.yaml"), Path("plan/data.yaml"))


def _build_aggregator(plan: Plan, runner: Any) -> StagedAggregator:
    initial = {name: array.copy() for name, array in runner.get_tensor_dict().items()}
    plan.config["aggregator"]["settings"]["masked"] = False
    aggregator: StagedAggregator = plan.get_aggregator(tensor_dict=initial)
    aggregator.poll_seconds = 0
    return aggregator


if __name__ == "__main__":
    main()
