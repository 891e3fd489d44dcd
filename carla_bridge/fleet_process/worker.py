"""The child process that holds the fleet.

The CARLA client can hang or abort a whole process when its server dies, so it runs in a separate process that can be
replaced. It drives only as far as it is ordered to, and sends the frames it takes.
"""

import os
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError, ServerLostError, ServerUnreachableError
from carla_bridge.fleet_process.process_log import ProcessLog
from carla_bridge.packets import Packet, encode_frame


@dataclass(frozen=True)
class Advance:
    """Drive until every frame before this second is taken."""

    until: float


@dataclass(frozen=True)
class Stop:
    """Clean up and end."""


@dataclass(frozen=True)
class Ready:
    """The fleet is set up and can drive."""

    map_name: str


@dataclass(frozen=True)
class Reached:
    """All frames before `time` have been sent."""

    time: float


@dataclass(frozen=True)
class Repeated:
    """The drive up to `time`, whose frames are known, has been driven again."""

    time: float


@dataclass(frozen=True)
class Event:
    """Something that happened during the drive, for people to read."""

    text: str


@dataclass(frozen=True)
class Failure:
    """The fleet ended; `lost` is true if its server went away, false for a mistake in the plan."""

    message: str
    lost: bool


class _Sender:
    """Annotates, packs and sends in a thread, while the world goes on ticking."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._outbox: queue.Queue[Any] = queue.Queue(maxsize=2)
        self.broken = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self._thread.start()

    def put(self, item: Any) -> None:
        self._outbox.put(item)

    def finish(self) -> None:
        self._outbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._outbox.get()) is not None:
            if self.broken or self.error:
                continue
            try:
                for message in item() if callable(item) else [item]:
                    self._connection.send(message)
            except OSError:
                self.broken = True
            except Exception as error:
                self.error = error


def run_fleet(
    connection: "Connection[Any, Any]", config: CarlaSettings, start: float, after_kill: bool, log: ProcessLog
) -> None:
    """Entry point of the process; it always cleans up the server and ends without the client's exit handlers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process in order.
    log.take_output()
    sender = _Sender(connection)
    code = 0
    try:
        _drive(connection, sender, config, start, after_kill)
    except BridgeError as error:
        lost = isinstance(error, ServerLostError | ServerUnreachableError)
        sender.put(Failure(str(error), lost))
    except (KeyboardInterrupt, SystemExit):
        pass
    except BaseException as error:
        code = 1
        sender.put(Failure(f"the fleet failed unexpectedly ({type(error).__name__}: {error})", False))
        sys.excepthook(type(error), error, error.__traceback__)
    sender.finish()
    connection.close()
    # The client library may abort in its static destructors; everything is cleaned up by now.
    os._exit(code)


def _drive(
    connection: "Connection[Any, Any]", sender: _Sender, config: CarlaSettings, start: float, after_kill: bool
) -> None:
    """Send the frames from `start` on.

    The embedded simulator drives from the beginning again, and so reaches `start` as if it had never stopped; another
    server is not promised to repeat a drive, so there the fleet sets out from other places.
    """
    from carla_bridge.fleet.fleet import Fleet

    begin = 0.0 if config.embedded else start
    with Fleet(config, start=begin, after_kill=after_kill, report=lambda text: sender.put(Event(text))) as fleet:

        def packets(captures: list[Any]) -> list[Packet]:
            stream = config.stream
            frames = [fleet.annotate(capture) for capture in captures]
            return [
                Packet(frame.vehicle, frame.timestamp, encode_frame(frame, stream.encoding, stream.jpeg_quality))
                for frame in frames
            ]

        sender.put(Ready(fleet.map_name))
        until = -1.0
        while not sender.broken:
            if sender.error:
                raise sender.error
            if fleet.time >= until or connection.poll():
                try:
                    order = connection.recv()
                except (EOFError, OSError):
                    return
                if isinstance(order, Stop):
                    return
                if fleet.time == begin < start:
                    sender.put(Event(f"driving again from the beginning to second {start:g}, without pictures"))
                until = max(until, order.until)
                if fleet.time >= until:
                    sender.put(Reached(fleet.time))
                continue
            if fleet.time < start:
                fleet.skip()
                sender.put(Repeated(fleet.time))
            else:
                captures = fleet.capture()
                sender.put(lambda captures=captures: packets(captures))
            if fleet.time >= until:
                sender.put(Reached(fleet.time))


def clean_server(config: CarlaSettings, log: ProcessLog) -> None:
    """Entry point of a process that removes what a killed fleet left on a server."""
    from carla_bridge.fleet.cleanup import ServerState
    from carla_bridge.fleet.connection import connect

    log.take_output()
    client = connect(config.host, config.port, timeout=config.timeout_seconds, sensors=0)
    ServerState(client, client.get_world(), after_kill=True).restore()
    os._exit(0)
