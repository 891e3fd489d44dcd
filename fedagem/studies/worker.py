"""A worker of a queue: takes runs, completes them, and goes on with those of workers that have died."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fedagem.errors import FedAGemError
from fedagem.plans.checks import check_snippet_paths, with_located_model
from fedagem.runs.live.many_runs import BatchView
from fedagem.runs.many_runs import Job, run_job
from fedagem.runs.parallel import StopCheck, run_in_parallel
from fedagem.runs.processes import ProcessKilledError, RunBusyError
from fedagem.studies.data import fetch_missing
from fedagem.studies.leases import LeaseLostError, SignOfLife
from fedagem.studies.queue import MOST_IN_VAIN, Attempt, End, Overview, Queue, QueuedRun, Standing, in_vain
from fedagem.tasks.settings import StreamSettings

_BUSY_SECONDS = 1.0


def work(queue: Queue, parallel: int, wait: bool = False, stand_by: bool = True) -> None:
    """Complete runs of the queue, so many at once, until all have ended.

    With `wait` go on until interrupted. Without `stand_by` leave as soon as every run that is left is held by a worker
    that is alive: whoever has started this one starts it again if such a worker dies.
    """
    with SignOfLife(queue.workers, queue.settings.lease_seconds) as sign, BatchView(0, 0) as view:
        worker = _Worker(queue, view, sign, wait, stand_by)
        with _interrupted_once(worker):
            run_in_parallel([worker.work] * parallel, parallel)


@contextmanager
def _interrupted_once(worker: "_Worker") -> Iterator[None]:
    """Let a scheduler's first signal interrupt the work, and let no other disturb it while it ends in good order."""
    signals = (signal.SIGTERM, signal.SIGUSR2)

    def interrupt(number: int, _: object) -> None:
        if number == signal.SIGUSR2:
            worker.release = "killed"
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Worker:
    """What the threads of a worker share."""

    release: End = "released"
    """How an attempt ends that is given up: a scheduler whose time is over counts as a kill, a person does not."""

    def __init__(self, queue: Queue, view: BatchView, sign: SignOfLife, wait: bool, stand_by: bool) -> None:
        self._queue, self._view, self._sign = queue, view, sign
        self._wait, self._stand_by = wait, stand_by
        self._overview = Overview(queue)
        self._finished: set[str] = set()
        self._choosing = threading.Lock()

    def work(self, check: StopCheck) -> None:
        """Complete one run after the other, until nothing is left, or other workers take this one for dead."""
        while (taken := self._next(check)) is not None:
            self._complete(*taken, check)

    def _next(self, check: StopCheck) -> tuple[QueuedRun, Attempt] | None:
        """The next run that this worker has taken, or None if nothing is left; waits for what others hold."""
        while True:
            with self._choosing:
                check()
                self._sign.check()
                taken, left = self._look()
            if taken is not None:
                return taken
            nothing_to_wait_for = not self._stand_by and all(standing.holder_is_alive for standing in left)
            if not self._wait and (not left or nothing_to_wait_for):
                return None
            check.pause(self._queue.look_seconds)

    def _look(self) -> tuple[tuple[QueuedRun, Attempt] | None, list[Standing]]:
        """Take the first run that is free; if there is none, where those stand that have not ended."""
        runs, left = self._queue.runs(), []
        for run in runs:
            if run.name in self._finished:
                continue
            standing = self._overview.standing(run)
            if standing.state == "finished":
                self._finished.add(run.name)
            elif standing.state == "free" and (attempt := self._take(run, standing.attempts)):
                self._view.count(len(runs), len(self._finished))
                return (run, attempt), []
            elif standing.state != "failed":
                left.append(standing)
        self._view.count(len(runs), len(self._finished))
        return None, left

    def _take(self, run: QueuedRun, before: list[Attempt]) -> Attempt | None:
        """Take a run, unless somebody else is faster; what this machine lacks for it ends the worker, not the run."""
        _check_machine(run.job)
        attempt = run.begin(before, self._sign.worker)
        if attempt is not None and in_vain(before, attempt.rounds):
            last = before[-1]
            facts = f"{MOST_IN_VAIN} attempts in a row ended before a round was complete, the last by {last.worker}"
            self._end(run, attempt, "failed", f"{facts}: {last.sentence}" if last.sentence else f"{facts}.")
            return None
        return attempt

    def _complete(self, run: QueuedRun, attempt: Attempt, check: StopCheck) -> None:
        _say(f"{run.title}: {f'continued after round {attempt.rounds}' if attempt.rounds else 'begun'}")
        try:
            self._run(run.job, check)
        except ProcessKilledError as problem:
            self._end(run, attempt, "killed", problem.message)
        except LeaseLostError:
            raise
        except FedAGemError as problem:
            self._end(run, attempt, "failed", problem.message)
        except BaseException:
            self._end(run, attempt, self.release)
            raise
        else:
            self._end(run, attempt, "finished")

    def _run(self, job: Job, check: StopCheck) -> None:
        def go_on() -> None:
            check()
            self._sign.check()

        while True:
            try:
                return run_job(job, self._view, go_on)
            except RunBusyError:  # what a dead worker has left behind on this machine has not ended yet
                check.pause(_BUSY_SECONDS)
            except ProcessKilledError:
                check()  # a Ctrl-C reaches the processes of the run, too
                raise

    def _end(self, run: QueuedRun, attempt: Attempt, how: End, sentence: str = "") -> None:
        run.end(attempt, how, sentence)
        _say(f"{run.title}: {how}{f' ({sentence})' if sentence else ''}")


def _check_machine(job: Job) -> None:
    """Refuse a run for which this machine lacks data, recorded frames or the model to begin with."""
    if isinstance(job.plan.data, StreamSettings):
        fetch_missing([job])
    check_snippet_paths(job.plan)
    with_located_model(job.plan)


def _say(line: str) -> None:
    """What happens, for a log; a terminal shows it anyway."""
    if not sys.stderr.isatty():
        click.echo(line, err=True)
