"""`fedagem simulate`: the whole federation on this machine, without sockets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from fedagem.cli.options import RunRequest, run_options

if TYPE_CHECKING:
    from fedagem.plans.plan import Plan

_TURNS_THAT_PAY_OFF = 200
_MOST_WORKERS = 4


@click.command(name="simulate")
@click.option("--workers", type=click.IntRange(min=1), help="Processes for the clients; by default as many as pay off.")
@click.option("--devices", metavar="DEVICE,...", help="Share the clients between devices, such as cuda:0,cuda:1.")
@click.option("--workers-per-device", type=click.IntRange(min=1), help="With --devices: processes on each (1).")
@run_options
def command(request: RunRequest, workers: int | None, devices: str | None, workers_per_device: int | None) -> None:
    """Run PLAN without sockets: same plan and seed, same numbers as `fedagem run`, with any number of workers."""
    places = _named_devices(devices, workers, workers_per_device)
    from fedagem.cli.finish import finish_run, interrupted
    from fedagem.cli.tracking import Tracking
    from fedagem.runs.drives import check_stream
    from fedagem.runs.federation import start_simulation
    from fedagem.runs.live.one_run import LiveView
    from fedagem.runs.preparation import check_preparable, prepare, warm_up
    from fedagem.runs.processes import ProcessGroup

    directory, requested = request.open_run(check_stream, check_preparable)
    workers = (workers_per_device or 1) if places else (workers or _workers_that_pay_off(requested))
    with Tracking(directory, request.track) as tracking:
        try:
            plan = warm_up(prepare(requested, live=True))
            rounds = plan.aggregator.rounds_to_train
            with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
                start_simulation(group, plan, workers, places)
                group.wait(tracking.following(view.refresh))
        except KeyboardInterrupt:
            interrupted("simulate", request, directory)
        finish_run(directory)
        tracking.finish()


def _named_devices(devices: str | None, workers: int | None, workers_per_device: int | None) -> list[str]:
    """The devices of the command, each of which is there."""
    if devices is None:
        if workers_per_device is not None:
            raise click.UsageError("--workers-per-device needs --devices: say which, such as cuda:0,cuda:1.")
        return []
    if workers is not None:
        raise click.UsageError("--workers and --devices exclude each other: use --workers-per-device.")
    from fedagem.learning.device import find_device

    names = [name.strip() for name in devices.split(",")]
    for name in names:
        find_device(name, "--devices")
    return names


def _workers_that_pay_off(plan: Plan) -> int:
    """One per core for benchmarks, up to a few, because each holds the data set; short runs end before they pay off."""
    from fedagem.plans.workload import TaskWorkload

    clients = len(plan.workload.collaborators)
    turns = plan.aggregator.rounds_to_train * clients
    if not isinstance(plan.workload, TaskWorkload) or turns < _TURNS_THAT_PAY_OFF:
        return 1
    return min(os.cpu_count() or 1, clients, _MOST_WORKERS)
