"""Serves each collaborator its vehicle's frames, window by window, over TCP."""

import hmac
import ipaddress
import logging
import secrets
import socket
import socketserver
import threading
from contextlib import suppress
from typing import Any

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError, StreamClosedError, StreamError
from carla_bridge.fleet_process.process import FleetProcess, InterruptedDriveError
from carla_bridge.stream.retention import Retention
from carla_bridge.stream.wire import MAX_REQUEST, PROTOCOL, Channel, proof

HANDSHAKE_SECONDS = 10.0
IDLE_SECONDS = 2.0
"""How often an idle world is checked."""
MAX_CONNECTIONS = 64
SHORTEST_TOKEN = 16

logger = logging.getLogger(__name__)


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to serve frames to other machines without a token."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise StreamError(f"the token has {len(token)} characters; use at least {SHORTEST_TOKEN}")
    try:
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise StreamError(f"the stream's host {host!r} is not an address of this machine ({error})") from error
    if token is None and not all(ipaddress.ip_address(address).is_loopback for address in addresses):
        raise StreamError(f"{host} can be reached from other machines, so the stream needs a token there")


class StreamServer:
    """Serves the frames of a fleet at a listening socket."""

    def __init__(self, fleet: FleetProcess, token: str | None = None) -> None:
        self._fleet = fleet
        self._token = token
        config = fleet.config
        check_exposure(config.stream.host, token)
        self.retention = Retention([vehicle.name for vehicle in config.vehicles], config.stream.window_seconds)
        self._serving: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._free_connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer.handle(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in config.stream.host else socket.AF_INET

        try:
            self._server = Server((config.stream.host, config.stream.port), Handler)
        except OSError as error:
            place = f"{config.stream.host}:{config.stream.port}"
            raise StreamError(f"the stream cannot listen at {place} ({error.strerror or error})") from error

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
        channel = Channel(connection, MAX_REQUEST)
        vehicle = ""
        if not self._free_connections.acquire(blocking=False):
            with suppress(StreamError):
                channel.send({"error": f"{MAX_CONNECTIONS} connections are open already; close one first"})
            return
        try:
            vehicle = self._greet(channel)
            while True:
                self._answer(channel, vehicle, channel.receive(None))
        except StreamClosedError:
            pass
        except StreamError as error:
            logger.warning("%s: %s", vehicle or "an unknown client", error)
            with suppress(StreamError):
                channel.send({"error": str(error)})
        finally:
            self._free_connections.release()
            with self._lock:
                if self._serving.get(vehicle) is channel:
                    del self._serving[vehicle]

    def _greet(self, channel: Channel) -> str:
        nonce = secrets.token_bytes(32)
        channel.send({"protocol": PROTOCOL, "nonce": nonce, "token": self._token is not None})
        answer = channel.receive(HANDSHAKE_SECONDS)
        vehicle, theirs = answer.get("vehicle"), answer.get("proof")
        config = self._fleet.config
        if not isinstance(vehicle, str):
            raise StreamError("the greeting names no vehicle")
        if self._token is not None:
            mine = proof(self._token, nonce, vehicle)
            if not isinstance(theirs, bytes) or not hmac.compare_digest(mine, theirs):
                raise StreamError("the token is wrong or missing")
        names = [entry.name for entry in config.vehicles]
        if vehicle not in names:
            raise StreamError(f"there is no vehicle {vehicle!r}; valid values: {', '.join(names)}")
        with self._lock:
            before = self._serving.pop(vehicle, None)
            self._serving[vehicle] = channel
        if before is not None:
            before.shut_down()
        channel.send(self._welcome(config))
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
