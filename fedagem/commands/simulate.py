"""`fedagem simulate`: the whole federation on this machine, without sockets."""

import click

from fedagem.federation import start_simulation
from fedagem.finish import finish_run, interrupted
from fedagem.live_view import LiveView
from fedagem.processes import ProcessGroup
from fedagem.run_options import RunRequest, run_options


@click.command(name="simulate")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Clients side by side.")
@run_options
def command(request: RunRequest, workers: int) -> None:
    """Run PLAN without sockets: same plan and seed, same numbers as `fedagem run`, with any number of workers."""
    directory, plan = request.open_run()
    rounds = plan["aggregator"]["settings"]["rounds_to_train"]
    try:
        with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
            start_simulation(group, workers)
            group.wait(view.refresh)
    except KeyboardInterrupt:
        interrupted("simulate", request, directory)
    finish_run(directory)
