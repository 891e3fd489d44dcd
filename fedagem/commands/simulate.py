"""`fedagem simulate`: the whole federation in one process."""

import sys

import click

from fedagem.finish import finish_run, interrupted
from fedagem.live_view import LiveView
from fedagem.processes import ProcessGroup
from fedagem.run_options import RunRequest, run_options


@click.command(name="simulate")
@run_options
def command(request: RunRequest) -> None:
    """Run PLAN in one process, without sockets: same plan and seed, same numbers as `fedagem run`."""
    directory, plan = request.open_run()
    rounds = plan["aggregator"]["settings"]["rounds_to_train"]
    try:
        with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
            group.start("simulation", [sys.executable, "-m", "src.simulate"])
            group.wait(view.refresh)
    except KeyboardInterrupt:
        interrupted("simulate", request, directory)
    finish_run(directory)
