"""Waiting for the runs of a queue, which others complete, and showing how far they are."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import click
from rich.progress import TaskID

from fedagem.errors import FedAGemError
from fedagem.runs.live.many_runs import BatchView
from fedagem.runs.live.run_watch import RunWatch
from fedagem.studies.queue import Overview, Queue, QueuedRun, Standing

_SHOW_SECONDS = 1.0


def wait_for_runs(queue: Queue, runs: Sequence[QueuedRun], nobody_left: Callable[[], str | None]) -> None:
    """Wait until all runs have ended; refuses if some have failed, or if nobody is left to complete them.

    `nobody_left` is asked once in a while: it says why nobody will take runs that are free, or None.
    """
    overview = Overview(queue)
    with _View(len(runs)) as view:
        while True:
            reason = nobody_left()
            standings = [(run, overview.standing(run)) for run in runs]
            view.show(standings)
            if all(standing.state in {"finished", "failed"} for _, standing in standings):
                break
            if reason is not None and not any(standing.state == "held" for _, standing in standings):
                raise FedAGemError(reason)
            view.refresh_for(queue.look_seconds)
    failed = [(run, standing) for run, standing in standings if standing.state == "failed"]
    if failed:
        run, standing = failed[0]
        raise FedAGemError(
            f"{len(failed)} of {len(runs)} runs failed, {run.title} first: {standing.attempts[-1].sentence}\n"
            "The others are kept; run the same command with --retry to try again."
        )


class _View:
    """A bar for each run that a worker holds."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._view = BatchView(runs, 0)
        self._bars: dict[str, tuple[TaskID, ExitStack]] = {}
        self._said = ""

    def __enter__(self) -> "_View":
        self._view.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._bars):
            self._remove(name)
        self._view.__exit__()

    def show(self, standings: Sequence[tuple[QueuedRun, Standing]]) -> None:
        """Show who works on what."""
        held = {run.name: (run, standing) for run, standing in standings if standing.state == "held"}
        for name in [name for name in self._bars if name not in held]:
            self._remove(name)
        for name, (run, standing) in held.items():
            if name not in self._bars:
                title = f"{run.title} ({standing.attempts[-1].worker.rpartition('-')[0]})"
                stack, watch = ExitStack(), RunWatch(run.directory)
                rounds = run.rounds
                self._bars[name] = stack.enter_context(self._view.run(title, watch, rounds)), stack
        counts = Counter(standing.state for _, standing in standings)
        self._view.count(self._runs, counts["finished"])
        self._say(
            f"{counts['finished']} finished, {counts['held']} under way, {counts['free']} waiting, "
            f"{counts['failed']} failed"
        )

    def refresh_for(self, seconds: float) -> None:
        """Follow the runs for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for bar, _ in self._bars.values():
                self._view.refresh(bar)
            time.sleep(min(left, _SHOW_SECONDS))

    def _remove(self, name: str) -> None:
        self._bars.pop(name)[1].close()

    def _say(self, line: str) -> None:
        """How many runs are where, for a log; a terminal shows it anyway."""
        if line != self._said and not sys.stderr.isatty():
            click.echo(line, err=True)
        self._said = line
