"""Serves each collaborator its vehicle's frames, window by window, over TCP."""

import logging
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError, StreamClosedError, StreamError
from carla_bridge.fleet_process.process import FleetProcess, InterruptedDriveError
from carla_bridge.stream.identity import FileToken, Identity, server_identity
from carla_bridge.stream.retention import Retention
from carla_bridge.stream.wire import MAX_REQUEST, NONCE_SIZE, PROTOCOL, Channel, shut_down

HANDSHAKE_SECONDS = 5.0
IDLE_SECONDS = 2.0
"""How often an idle world is checked."""
MOST_STRANGERS = 16
"""Connections that have not proved anything yet; of the others, each vehicle has one."""
BACKLOG = 64

logger = logging.getLogger(__name__)


class Strangers:
    """The connections that have not proved anything yet: a few, and each for a short time.

    A newcomer takes the place of the oldest, so that idle connections cannot keep a collaborator out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: list[socket.socket] = []

    @contextmanager
    def admit(self, connection: socket.socket) -> Iterator[float]:
        """A place among them; gives the time of `time.monotonic` by which the connection must have proved itself."""
        handle = connection.dup()  # ends the connection whatever becomes of the original, which TLS takes over
        with self._lock:
            self._handles.append(handle)
            if len(self._handles) > MOST_STRANGERS:
                shut_down(self._handles.pop(0))
        try:
            yield time.monotonic() + HANDSHAKE_SECONDS
        finally:
            with self._lock:
                with suppress(ValueError):
                    self._handles.remove(handle)
                handle.close()


class StreamServer:
    """Serves the frames of a fleet at a listening socket.

    It listens from the beginning, so that nobody else can take its port while the fleet is being started; whoever
    connects is answered when it runs.
    """

    def __init__(self, fleet: FleetProcess, identity: Identity | None = None) -> None:
        self._fleet = fleet
        config = fleet.config
        self.retention = Retention([vehicle.name for vehicle in config.vehicles], config.stream.window_seconds)
        self._serving: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._strangers = Strangers()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer.handle(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = BACKLOG
            address_family = socket.AF_INET6 if ":" in config.stream.host else socket.AF_INET

        try:
            self._server = Server((config.stream.host, config.stream.port), Handler)
        except OSError as error:
            place = f"{config.stream.host}:{config.stream.port}"
            raise StreamError(f"the stream cannot listen at {place} ({error.strerror or error})") from error
        try:
            self._identity = identity or server_identity(config.stream.host, self.address[1])
        except BaseException:
            self._server.server_close()
            raise

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def run(self) -> None:
        """Serve until `stop` is called or the fleet fails for good, which raises."""
        acceptor = threading.Thread(target=self._server.serve_forever, name="acceptor", daemon=True)
        acceptor.start()
        try:
            self._produce()
        except InterruptedDriveError:
            pass
        except BridgeError as error:
            self.retention.fail(str(error))
            raise
        finally:
            self.retention.close()
            self._server.shutdown()
            self.close()

    def close(self) -> None:
        """Give up the token and the port; whoever serves next takes others."""
        if isinstance(self._identity, FileToken):
            self._identity.remove()
        self._server.server_close()

    def stop(self) -> None:
        """Let `run` return soon; called from another thread."""
        self.retention.close()
        self._fleet.interrupt()

    def _produce(self) -> None:
        begun = False
        while not self.retention.closed:
            if not begun:
                begin = self.retention.wait_for_begin(IDLE_SECONDS)
                if begin is not None:
                    self._fleet.begin(begin)
                    begun = True
            elif (goal := self.retention.wait_for_goal(IDLE_SECONDS)) is not None:
                for packet in self._fleet.packets(goal):
                    self.retention.put(packet)
                self.retention.reached(goal)
            self._fleet.watch()

    def handle(self, connection: socket.socket) -> None:
        """Serve one collaborator, from the handshake until the connection ends."""
        channel, vehicle = None, ""
        try:
            with self._strangers.admit(connection) as deadline:
                connection.settimeout(HANDSHAKE_SECONDS)
                connection = self._identity.secure(connection)
                channel = Channel(connection, MAX_REQUEST)
                vehicle = self._greet(channel, connection, deadline)
            while True:
                self._answer(channel, vehicle, channel.receive(None))
        except StreamClosedError:
            pass
        except (StreamError, OSError) as error:
            logger.warning("%s: %s", vehicle or "an unknown client", error)
            if channel is not None:
                with suppress(StreamError):
                    channel.send({"error": str(error)})
        finally:
            with self._lock:
                if channel is not None and self._serving.get(vehicle) is channel:
                    del self._serving[vehicle]
            connection.close()

    def _greet(self, channel: Channel, connection: socket.socket, deadline: float) -> str:
        """The vehicle of a collaborator that has proved itself; it replaces an older connection of that vehicle."""
        mine = secrets.token_bytes(NONCE_SIZE)
        channel.send({"protocol": PROTOCOL, "nonce": mine})
        answer = channel.receive_until(deadline)
        vehicle, theirs = answer.get("vehicle"), answer.get("nonce")
        if not isinstance(vehicle, str) or not isinstance(theirs, bytes) or len(theirs) != NONCE_SIZE:
            raise StreamError(f"the greeting is not a vehicle, a nonce of {NONCE_SIZE} bytes and a proof")
        self._identity.check("client", connection, mine + theirs, vehicle, answer.get("proof"))
        config = self._fleet.config
        names = [entry.name for entry in config.vehicles]
        if vehicle not in names:
            raise StreamError(f"there is no vehicle {vehicle!r}; valid values: {', '.join(names)}")
        with self._lock:
            before = self._serving.pop(vehicle, None)
            self._serving[vehicle] = channel
        if before is not None:
            before.shut_down()
        proof = self._identity.proof("server", mine + theirs, vehicle)
        channel.send({"proof": proof, **self._welcome(config)})
        return vehicle

    def _welcome(self, config: CarlaSettings) -> dict[str, Any]:
        return {
            "classes": list(config.class_names),
            "frame_seconds": config.frame_seconds,
            "window_seconds": config.stream.window_seconds,
            "map": self._fleet.map_name,
        }

    def _answer(self, channel: Channel, vehicle: str, request: dict[str, Any]) -> None:
        try:
            start, end, after = (float(request[key]) for key in ("start", "end", "after"))
        except (KeyError, TypeError, ValueError) as error:
            raise StreamError("a request is {start, end, after} in seconds") from error
        self.retention.ask(vehicle, start, end)
        after = max(after, _just_before(start))
        for item in self.retention.frames(vehicle, after, end):
            if isinstance(item, str):
                channel.send({"waiting": item})
            else:
                channel.send_packed(item)
        gaps = [[gap.at, gap.reason, gap.seconds] for gap in self.retention.gaps(start, end)]
        channel.send({"end": end, "gaps": gaps})


def _just_before(start: float) -> float:
    return start - 1e-9
