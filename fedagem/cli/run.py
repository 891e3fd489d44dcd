"""`fedagem run`: a real federation on this machine, processes of `fx` over mutual TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fedagem.cli.options import RunRequest, run_options

if TYPE_CHECKING:
    from fedagem.plans.plan import Plan


@click.command(name="run")
@run_options
def command(request: RunRequest) -> None:
    """Run PLAN as a federation of `fx` processes over mutual TLS on this machine, with its simulator and fleet."""
    from fedagem.cli.finish import finish_run, interrupted
    from fedagem.plans.drive import is_driving
    from fedagem.runs.drives import add_evaluation_frames, drives_before
    from fedagem.runs.federation import check_fleet, start_federation
    from fedagem.runs.live.one_run import LiveView
    from fedagem.runs.preparation import warm_up
    from fedagem.runs.processes import ProcessGroup
    from fedagem.runs.recording import check_recordable, record_drives

    def check_drives(plan: Plan) -> None:
        check_recordable(drives_before(plan, request.plan_path.stem, live=True))

    directory, plan = request.open_run(check_fleet, check_drives)
    rounds = plan["aggregator"]["settings"]["rounds_to_train"]
    try:
        record_drives(drives_before(plan, request.plan_path.stem, live=True))
        if is_driving(plan):
            add_evaluation_frames(plan, request.plan_path.stem)
        warm_up(plan, request.plan_path.stem)
        with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
            start_federation(group, plan)
            group.wait(view.refresh)
    except KeyboardInterrupt:
        interrupted("run", request, directory)
    finish_run(directory)
