"""`fedagem watch`: how far a federation is that was started elsewhere, and whom it waits for."""

from __future__ import annotations

import time
from pathlib import Path

import click

_LOOK_SECONDS = 0.5


@click.command(name="watch")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Watch the federation in DIR: rounds, losses and scores, who is awaited and since when.

    DIR is the workspace in which `fx aggregator start` runs, or the folder of `fedagem run`. The view ends with the
    federation; Ctrl-C ends it earlier and disturbs nobody.
    """
    from fedagem.errors import FedAGemError
    from fedagem.runs.folder import plan_of_run
    from fedagem.runs.live.one_run import LiveView
    from fedagem.runs.standing import read_standing

    rounds = plan_of_run(directory).aggregator.rounds_to_train
    try:
        with LiveView(directory, directory.resolve().name, rounds) as view:
            while (standing := read_standing(directory)) is None or standing.ended is None:
                view.refresh()
                time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return
    if standing.ended:
        raise FedAGemError(f"the federation in {directory} stopped: {standing.ended}.")
    without = f", without {', '.join(standing.absent)}" if standing.absent else ""
    click.echo(f"All {rounds} rounds are done{without}: `fedagem report {directory}` shows what was learned.")
