"""Work in parallel threads: the first failure, or an interrupt, stops the rest."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

Check = Callable[[], None]
"""Raises if the work should stop; a part that waits calls it again and again."""


class _StoppedError(Exception):
    """The rest ends: by an interrupt, or because another part failed."""


class StopCheck:
    """The check that parts are called with."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def __call__(self) -> None:
        """Raise if the work should stop."""
        if self._stop.is_set():
            raise _StoppedError

    def pause(self, seconds: float) -> None:
        """Wait so long, or raise as soon as the work should stop."""
        self._stop.wait(seconds)
        self()


def run_in_parallel(parts: Sequence[Callable[[StopCheck], None]], parallel: int) -> None:
    """Do all parts, so many at once, in their order; every one has ended when the first failure is raised."""
    stop = threading.Event()
    check = StopCheck(stop)
    under_way: list[Callable[[StopCheck], None]] = []
    one_has_ended = threading.Condition()

    def one(part: Callable[[StopCheck], None]) -> None:
        under_way.append(part)
        try:
            check()
            part(check)
        except BaseException:
            stop.set()  # here, or this thread would begin with the next part before anybody else has looked
            raise
        finally:
            with one_has_ended:
                under_way.remove(part)
                one_has_ended.notify_all()

    with ThreadPoolExecutor(max_workers=parallel) as pool:
        try:
            futures = [pool.submit(one, part) for part in parts]
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            with one_has_ended:  # the pool does not wait for a thread during whose start it was interrupted
                one_has_ended.wait_for(lambda: not under_way)
    for problem in (future.exception() for future in futures):
        if problem is not None and not isinstance(problem, _StoppedError):
            raise problem
