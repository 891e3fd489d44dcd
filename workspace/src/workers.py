"""Clients in parallel: worker processes with one model each, and the aggregator in the process that starts them.

A client always belongs to the same worker, so its state stays where it is. A worker does one client's turn at a
time and asks for everything over its pipe; the numbers are those of one client after the other.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import click
from openfl.utilities import TensorKey

from fedagem.errors import FederationError
from fedagem.learning.device import DEVICE_VARIABLE
from fedagem.system import end_with_parent
from src.aggregator import StagedAggregator
from src.clients import Clients
from src.link import Link, ResultRefusedError
from src.task_results import PREVIOUS, Array

BuildClients = Callable[[list[str], Callable[[str], Link]], Clients]
"""Makes the clients of some names, given the link of each."""

Key = tuple[str, int, tuple[str, ...]]
"""What a client asks for: a tensor's name, its round and its kind."""


class Crossed:
    """What has crossed a worker's pipe; both ends keep the same account, so that nothing crosses twice."""

    def __init__(self) -> None:
        self._arrays: dict[Key, Array] = {}

    def get(self, key: Key) -> Array | None:
        """The tensor as it was sent; None if it was not, or is forgotten."""
        return self._arrays.get(key)

    def note(self, key: Key, array: Array) -> None:
        """Keep a tensor, and forget those that nobody will ask for again: the previous model serves a whole task."""
        _, newest, kind = key
        oldest = newest if kind == PREVIOUS else newest - 1
        outdated = [old for old in self._arrays if (old[2] == PREVIOUS) == (kind == PREVIOUS) and old[1] < oldest]
        for old in outdated:
            del self._arrays[old]
        self._arrays[key] = array


class PipeLink:
    """A collaborator's link over its worker's pipe."""

    def __init__(self, pipe: Connection, received: Crossed) -> None:
        self._pipe = pipe
        self._received = received
        """What this worker was sent: the global model crosses the pipe once for all of its clients."""

    def get_tasks(self) -> tuple[list[str], int, int, bool]:
        tasks, round_number, sleep_seconds, quit_now = self._ask("get_tasks")
        return tasks or [], round_number, sleep_seconds, quit_now

    def fetch(self, name: str, round_number: int, kind: tuple[str, ...]) -> Array:
        key = (name, round_number, kind)
        array: Array | None = self._ask("fetch", *key)
        if array is None:
            known = self._received.get(key)
            assert known is not None, "the pool knows what this worker has"
            return known
        self._received.note(key, array)
        return array

    def send(self, round_number: int, task: str, tensors: dict[TensorKey, Array]) -> None:
        refusal: str | None = self._ask("send", round_number, task, tensors)
        if refusal is not None:
            raise ResultRefusedError(refusal)

    def _ask(self, *question: Any) -> Any:
        self._pipe.send(question)
        return self._pipe.recv()


def work(pipe: Connection, names: list[str], device: str | None, build: BuildClients) -> None:
    """A worker process: do the turns of the clients that the pool names, until there are no more."""
    os.environ.pop(DEVICE_VARIABLE, None)
    if device is not None:
        os.environ[DEVICE_VARIABLE] = device
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    received = Crossed()
    try:
        clients: Clients | None = None
        while (name := pipe.recv()) is not None:
            clients = clients or build(names, lambda _: PipeLink(pipe, received))
            clients.named(name).step()
            pipe.send(("done",))
    except click.ClickException as problem:
        pipe.send(("failed", problem.message))
    except EOFError:
        return
    except Exception as problem:
        traceback.print_exc()
        pipe.send(("failed", f"{type(problem).__name__}: {problem}"))


class WorkerGoneError(Exception):
    """A worker's pipe is closed: its process has ended."""


class WorkerPool:
    """The worker processes of a simulation, each served by a thread of the aggregator's process."""

    def __init__(
        self, aggregator: StagedAggregator, names: list[str], devices: list[str | None], build: BuildClients
    ) -> None:
        """A worker for each of `devices`; None leaves the choice to the plan."""
        self._aggregator = aggregator
        self._failures: list[str] = []
        self._threads: list[threading.Thread] = []
        self._processes: list[BaseProcess] = []
        spawn = multiprocessing.get_context("spawn")
        for number, device in enumerate(devices):
            ours, theirs = spawn.Pipe()
            mine = names[number :: len(devices)]
            process = spawn.Process(target=work, args=(theirs, mine, device, build), name=f"worker {number + 1}")
            process.start()
            theirs.close()
            self._processes.append(process)
            self._threads.append(threading.Thread(target=self._serve, args=(ours, mine, process), daemon=True))

    def run(self) -> None:
        """Let all workers go on until the federation is over; the first failure ends it."""
        try:
            for thread in self._threads:
                thread.start()
            for thread in self._threads:
                thread.join()
        finally:
            for process in self._processes:
                process.terminate()
                process.join()
        if self._failures:
            raise FederationError(self._failures[0])

    def _serve(self, pipe: Connection, names: list[str], process: BaseProcess) -> None:
        mine, sent = set(names), Crossed()
        try:
            while (name := self._aggregator.wait_for_work(mine)) is not None:
                _tell(pipe, name)
                self._serve_turn(pipe, name, sent)
            _tell(pipe, None)
        except WorkerGoneError:
            process.join()
            self._fail(
                f"{process.name} of the simulation ended with exit code {process.exitcode}: "
                "start it again with --resume."
            )
        except click.ClickException as problem:
            self._fail(problem.message)
        except Exception as problem:
            self._fail(f"{type(problem).__name__}: {problem}")
            traceback.print_exc()

    def _serve_turn(self, pipe: Connection, name: str, sent: Crossed) -> None:
        """Answer a client's questions until its turn is over."""
        while True:
            kind, *arguments = _hear(pipe)
            if kind == "done":
                return
            if kind == "failed":
                raise FederationError(arguments[0])
            _tell(pipe, self._answer(name, kind, arguments, sent))

    def _answer(self, name: str, kind: str, arguments: list[Any], sent: Crossed) -> Any:
        if kind == "get_tasks":
            return self._aggregator.get_tasks(name)
        if kind == "fetch":
            key = (arguments[0], arguments[1], arguments[2])
            array = self._aggregator.lookup(*key, name)
            if sent.get(key) is array:  # what the server side offers may change within a round
                return None
            sent.note(key, array)
            return array
        try:
            self._aggregator.receive(name, *arguments)
        except ResultRefusedError as refusal:
            return refusal.reason
        return None

    def _fail(self, reason: str) -> None:
        self._failures.append(reason)
        self._aggregator.stop(reason)


def _tell(pipe: Connection, message: Any) -> None:
    """Send to a worker; errors of the aggregator's own files must not be mistaken for those of the pipe."""
    try:
        pipe.send(message)
    except OSError as problem:
        raise WorkerGoneError from problem


def _hear(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError) as problem:
        raise WorkerGoneError from problem
