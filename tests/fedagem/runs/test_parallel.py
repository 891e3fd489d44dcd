"""Work in parallel ends with its first failure."""

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from fedagem.errors import FedAGemError
from fedagem.runs import parallel
from fedagem.runs.parallel import run_in_parallel


def fails(check):
    raise FedAGemError("it went wrong.")


class HurriedWorker(ThreadPoolExecutor):
    """One worker that has done every part before the thread that waits for it gets to run."""

    def submit(self, function, /, *arguments, **options):
        future: Future[object] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except BaseException as problem:
            future.set_exception(problem)
        return future


def test_a_worker_that_failed_does_not_begin_the_next_part_before_anybody_has_looked(monkeypatch):
    monkeypatch.setattr(parallel, "ThreadPoolExecutor", HurriedWorker)
    begun: list[object] = []
    with pytest.raises(FedAGemError, match="it went wrong"):
        run_in_parallel([fails, begun.append, begun.append], parallel=1)
    assert not begun


def test_what_is_under_way_is_stopped_by_its_check_and_has_ended_when_the_failure_is_raised():
    ended = threading.Event()

    def waits(check):
        try:
            while True:
                check()
        finally:
            ended.set()

    with pytest.raises(FedAGemError, match="it went wrong"):
        run_in_parallel([waits, fails], parallel=2)
    assert ended.is_set()


def test_an_interrupt_while_the_first_part_is_being_started_stops_it_too(monkeypatch):
    """A pool that is interrupted while it starts a thread forgets that thread."""
    begun, ended = threading.Event(), threading.Event()

    def waits(check):
        begun.set()
        try:
            while True:
                check.pause(60)
        finally:
            ended.set()

    class Interrupted(ThreadPoolExecutor):
        def submit(self, function, /, *arguments, **options):
            def run():
                with contextlib.suppress(Exception):
                    function(*arguments, **options)

            threading.Thread(target=run, daemon=True).start()
            begun.wait()
            raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel([waits], parallel=1)
    assert ended.is_set(), "it has ended when the interrupt is raised"


def test_everything_is_done_in_order():
    done: list[int] = []
    run_in_parallel([lambda _, number=number: done.append(number) for number in range(5)], parallel=1)  # type: ignore[misc]
    assert done == [0, 1, 2, 3, 4]
