"""Supervises a fleet: watches its process and its server, replaces whatever dies, and continues the timeline."""

import logging
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError, ServerLostError, ServerUnreachableError
from carla_bridge.fleet.connection import probe
from carla_bridge.fleet_process.embedded import EmbeddedSimulator
from carla_bridge.fleet_process.process_log import ProcessLog
from carla_bridge.fleet_process.worker import (
    Advance,
    Event,
    Failure,
    Reached,
    Ready,
    Repeated,
    Stop,
    clean_server,
    run_fleet,
)
from carla_bridge.packets import Gap, Packet
from carla_bridge.termination import uninterrupted

SETUP_SECONDS = 240.0
"""A fleet that is not set up by then hangs; loading one of CARLA's large maps takes minutes."""
SILENCE_SECONDS = 60.0
"""A fleet that should drive but sends nothing for so long hangs."""
GIVE_UP_SECONDS = 600.0
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
MOST_LOSSES = 5
"""A drive that is repeated exactly, and lost so often before the same frame, will be lost there again."""
CLEAN_UP_SECONDS = 30.0

INTERRUPTED = "the drive was interrupted here and goes on from other places"

logger = logging.getLogger(__name__)


class ServerGoneError(ServerLostError):
    """The server's process has ended, so there is nothing to clean up."""


class SilenceError(ServerLostError):
    """The fleet sent nothing in time."""


class InterruptedDriveError(BridgeError):
    """The fleet was asked to end while it was driving."""


class FleetProcess:
    """A fleet in a child process, with the embedded simulator as another if the plan asks for it.

    `packets(until)` drives. A server or fleet that dies meanwhile is replaced, with growing pauses between attempts,
    and reported as a gap; a mistake in the plan, or a server that was never there, raises an error.

    A drive goes on at `start` or wherever it was lost. In the embedded simulator it is driven again up to there,
    without pictures and with `on_repeat` called for every frame that is passed, so that the frames that follow are
    those of an undisturbed drive. On another server they come from a fleet in other places, and a gap is reported.
    """

    def __init__(
        self,
        config: CarlaSettings,
        *,
        start: float = 0.0,
        on_event: Callable[[str], None] = logger.info,
        on_repeat: Callable[[float], object] = lambda second: None,
    ) -> None:
        self.config = config
        self.map_name = ""
        self.gaps: list[Gap] = []
        self._start = start
        self._on_event = on_event
        self._on_repeat = on_repeat
        self._on_gap: Callable[[Gap], object] = lambda gap: None
        self._reported: set[str] = set()
        self._after_kill = False
        self._losses = 0
        self._last: dict[str, float] = {}
        self._wake, self._waker = multiprocessing.Pipe(duplex=False)
        self._simulator: EmbeddedSimulator | None = None
        self._process: Any = None
        self._connection: Connection[Any, Any] | None = None
        self._server_socket: socket.socket | None = None
        self._log = ProcessLog()

    def __enter__(self) -> "FleetProcess":
        try:
            self._launch()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def time(self) -> float:
        """Second of the next frame."""
        names = [vehicle.name for vehicle in self.config.vehicles]
        if not all(name in self._last for name in names):
            return self._start
        return round(min(self._last[name] for name in names) + self.config.frame_seconds, 9)

    @property
    def worker_pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def simulator_pid(self) -> int | None:
        return self._simulator.pid if self._simulator is not None else None

    def on_gap(self, listener: Callable[[Gap], object]) -> None:
        """Call `listener` for every gap from now on."""
        self._on_gap = listener

    def begin(self, start: float) -> None:
        """Let the timeline begin at another second, before the first frame."""
        if start == self._start:
            return
        self._start = start
        self._end_process(CLEAN_UP_SECONDS)
        try:
            self._launch()
        except (ServerLostError, ServerUnreachableError) as loss:
            self._replace(loss)

    def packets(self, until: float) -> Iterator[Packet]:
        """Every frame before second `until` that has not been yielded yet, in order for each vehicle."""
        while self.time < until:
            try:
                yield from self._drive(until)
            except ServerLostError as loss:
                self._replace(loss)

    def watch(self) -> None:
        """Replace the fleet if it, or its server, died; for times when no frames are asked for."""
        try:
            self._receive(0.0)
        except SilenceError:
            return
        except ServerLostError as loss:
            self._replace(loss)

    def interrupt(self) -> None:
        """Make a `packets` that runs in another thread raise InterruptedDriveError; `close` is still needed."""
        self._waker.send(None)

    def close(self) -> None:
        """Clean up the server, end the process, stop the embedded simulator."""
        with uninterrupted():
            clean = self._end_process(CLEAN_UP_SECONDS)
            if not clean and self._simulator is None:
                self._clean_server()
            self._stop_simulator()
            self._log.close()

    def _drive(self, until: float) -> Iterator[Packet]:
        self._send(Advance(until))
        while True:
            message = self._receive(SILENCE_SECONDS)
            if isinstance(message, Packet):
                if message.timestamp > self._last.get(message.vehicle, -1.0):
                    if not self._last:
                        self._note_interruption()
                    self._last[message.vehicle] = message.timestamp
                    self._losses = 0
                    yield message
            elif isinstance(message, Repeated):
                self._on_repeat(message.time)
            elif isinstance(message, Reached) and message.time >= until:
                return

    def _send(self, order: Any) -> None:
        assert self._connection is not None
        try:
            self._connection.send(order)
        except OSError as error:
            raise ServerLostError(self._how_it_ended()) from error

    def _receive(self, timeout: float) -> Any:
        """The next message of the fleet; raises ServerLostError if the fleet or its server is gone."""
        assert self._connection is not None
        deadline = time.monotonic() + timeout
        while True:
            watched: list[Any] = [self._wake, self._connection, *([self._server_socket] if self._server_socket else [])]
            ready = wait(watched, max(deadline - time.monotonic(), 0.0))
            if self._wake in ready:
                raise InterruptedDriveError("the fleet was asked to end")
            if not ready:
                raise SilenceError(f"the fleet has been silent for {timeout:g} s")
            if self._connection not in ready:
                raise ServerGoneError("the server closed its connections")
            try:
                message = self._connection.recv()
            except (EOFError, OSError) as error:
                raise ServerLostError(self._how_it_ended()) from error
            if isinstance(message, Failure):
                raise (ServerLostError if message.lost else BridgeError)(message.message)
            if not isinstance(message, Event):
                return message
            if message.text not in self._reported:  # a drive that is repeated reports the same again
                self._reported.add(message.text)
                self._on_event(message.text)

    def _how_it_ended(self) -> str:
        self._process.join(5.0)
        last = self._log.last_line() or "it left no message"
        return f"the fleet's process ended with code {self._process.exitcode} ({last})"

    def _launch(self) -> None:
        config = self.config
        if config.embedded:
            self._stop_simulator()
            self._simulator = EmbeddedSimulator.start(config)
            config = config.at(self._simulator.host, self._simulator.port)
        probe(config.host, config.port)
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._log.close()
        self._log = ProcessLog()
        self._process = context.Process(
            target=run_fleet, args=(theirs, config, self.time, self._after_kill, self._log), daemon=True
        )
        self._process.start()
        theirs.close()
        ready = self._receive(SETUP_SECONDS)
        assert isinstance(ready, Ready)
        self.map_name = ready.map_name
        self._server_socket = socket.create_connection((config.host, config.port), timeout=3.0)

    def _replace(self, loss: ServerLostError | ServerUnreachableError) -> None:
        """Start another fleet, and wait for the server to return if it is gone."""
        lost_at, pause = time.monotonic(), FIRST_PAUSE
        self._losses += 1
        if self.config.embedded and self._losses > MOST_LOSSES:
            raise BridgeError(
                f"the drive was lost {self._losses} times before its frame at second {self.time:g} ({loss})"
            )
        self._after_kill = True
        self._on_event(f"second {self.time:g}: {loss}")
        self._end_process(0.0 if isinstance(loss, ServerGoneError) else CLEAN_UP_SECONDS)
        while True:
            try:
                self._launch()
                break
            except (ServerLostError, ServerUnreachableError) as error:
                self._end_process(0.0)
                if time.monotonic() - lost_at > GIVE_UP_SECONDS:
                    raise BridgeError(f"the server did not return within {GIVE_UP_SECONDS:g} s ({error})") from error
                if wait([self._wake], pause):
                    raise InterruptedDriveError("the fleet was asked to end while its server was away") from error
                pause = min(2 * pause, LONGEST_PAUSE)
        gap = Gap(self.time, str(loss), round(time.monotonic() - lost_at, 3))
        self._on_event(f"second {gap.at:g}: driving again after {gap.seconds:g} s")
        self._add_gap(gap)

    def _note_interruption(self) -> None:
        """Report that an earlier drive ended where this one begins; only the embedded simulator continues that one."""
        if self._start > 0 and not self.config.embedded:
            self._on_event(f"second {self._start:g}: {INTERRUPTED}")
            self._add_gap(Gap(self._start, INTERRUPTED, 0.0))

    def _add_gap(self, gap: Gap) -> None:
        self.gaps.append(gap)
        self._on_gap(gap)

    def _end_process(self, patience: float) -> bool:
        """End the fleet's process, giving it `patience` seconds to clean up; true if it did."""
        if self._server_socket is not None:
            self._server_socket.close()
            self._server_socket = None
        process, connection = self._process, self._connection
        if process is None or connection is None:
            return True
        self._process = self._connection = None
        with suppress(OSError):
            connection.send(Stop())
        connection.close()
        process.join(patience)
        if process.is_alive():
            process.kill()
            process.join()
        return bool(process.exitcode == 0)

    def _stop_simulator(self) -> None:
        if self._simulator is not None:
            self._simulator.stop()
            self._simulator = None

    def _clean_server(self) -> None:
        """Let a new process remove what a killed fleet left on the server."""
        with suppress(BridgeError):
            probe(self.config.host, self.config.port)
            context = multiprocessing.get_context("spawn")
            process = context.Process(target=clean_server, args=(self.config, self._log), daemon=True)
            process.start()
            process.join(CLEAN_UP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
