"""`fedagem run`: a real federation on this machine, processes of `fx` over mutual TLS."""

from __future__ import annotations

from dataclasses import replace

import click

from fedagem.cli.options import RunRequest, run_options


@click.command(name="run")
@click.option(
    "--secure", is_flag=True, help="With secure aggregation: the aggregator sees sums only. The numbers stay the same."
)
@run_options
def command(request: RunRequest, secure: bool) -> None:
    """Run PLAN as a federation of `fx` processes over mutual TLS on this machine, with its simulator and fleet."""
    from fedagem.cli.finish import finish_run, interrupted
    from fedagem.cli.tracking import Tracking
    from fedagem.plans.protection import SECURE_AGGREGATION
    from fedagem.runs.federation import check_fleet, start_federation
    from fedagem.runs.live.one_run import LiveView
    from fedagem.runs.preparation import check_preparable, prepare, warm_up
    from fedagem.runs.processes import ProcessGroup

    if secure:
        request = replace(request, assignments=(*request.assignments, f"{SECURE_AGGREGATION}.bits=64"))
    directory, requested = request.open_run(check_fleet, check_preparable)
    with Tracking(directory, request.track) as tracking:
        try:
            plan = warm_up(prepare(requested, live=True))
            rounds = plan.aggregator.rounds_to_train
            with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
                start_federation(group, plan)
                group.wait(tracking.following(view.refresh))
        except KeyboardInterrupt:
            interrupted("run", request, directory)
        finish_run(directory)
        tracking.finish()
