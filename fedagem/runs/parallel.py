"""Work in parallel threads: the first failure, or an interrupt, stops the rest."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

Check = Callable[[], None]
"""Raises if the work should stop; a part that waits calls it again and again."""


class _StoppedError(Exception):
    """The rest ends: by an interrupt, or because another part failed."""


def run_in_parallel(parts: Sequence[Callable[[Check], None]], parallel: int) -> None:
    """Do all parts, so many at once, in their order; every one has ended when the first failure is raised."""
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise _StoppedError

    def one(part: Callable[[Check], None]) -> None:
        check()
        try:
            part(check)
        except BaseException:
            stop.set()  # here, or this thread would begin with the next part before anybody else has looked
            raise

    with ThreadPoolExecutor(max_workers=parallel) as pool:
        futures = [pool.submit(one, part) for part in parts]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for problem in (future.exception() for future in futures):
        if problem is not None and not isinstance(problem, _StoppedError):
            raise problem
