"""`fedagem run`: a real federation on this machine, processes of `fx` over mutual TLS."""

import click

from fedagem.drive import is_driving
from fedagem.federation import start_federation
from fedagem.finish import finish_run, interrupted
from fedagem.live_view import LiveView
from fedagem.processes import ProcessGroup
from fedagem.recorded_frames import add_evaluation_frames, drives_before
from fedagem.recording import record_drives
from fedagem.run_options import RunRequest, run_options
from fedagem.warm_up import warm_up


@click.command(name="run")
@run_options
def command(request: RunRequest) -> None:
    """Run PLAN as a federation of `fx` processes over mutual TLS on this machine, with its simulator and fleet."""
    directory, plan = request.open_run()
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
