"""The trackers of a command: they receive each round as it ends, and learn whether the run finished."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import click

from fedagem.reports.tracking.tracked_run import TrackedRun


class Tracking(AbstractContextManager["Tracking"]):
    """The trackers of one run; none is the usual case."""

    def __init__(self, directory: Path, kinds: Iterable[str]) -> None:
        self._runs = [TrackedRun(directory, kind, _warn) for kind in dict.fromkeys(kinds)]

    def following(self, refresh: Callable[[], None]) -> Callable[[], None]:
        """The view's refresh, after which trackers look for news."""

        def both() -> None:
            refresh()
            for run in self._runs:
                run.update()

        return both if self._runs else refresh

    def finish(self) -> None:
        """Hand over what is left; the run's results, pictures and models are there."""
        for run in self._runs:
            run.finish()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in self._runs:
            run.stop()


def track_finished(directory: Path, kinds: Iterable[str]) -> None:
    """Hand a finished run over, unless it was before."""
    with Tracking(directory, kinds) as tracking:
        tracking.finish()


def _warn(sentence: str) -> None:
    click.echo(f"Warning: {sentence}", err=True)
