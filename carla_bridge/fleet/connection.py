"""Reaching a CARLA server, or saying in one sentence why not."""

import socket
from typing import Any

from carla_bridge.errors import ServerUnreachableError, VersionError

PROBE_SECONDS = 3.0


def connect(host: str, port: int, *, timeout: float, sensors: int) -> Any:
    """A client of a server of the very same version.

    The client gets a thread per sensor and two to spare: with fewer, a batch that ticks can wait for ever for a
    snapshot that no thread is left to receive.
    """
    import carla

    probe(host, port)
    client = carla.Client(host, port, sensors + 2)
    client.set_timeout(timeout)
    mine = client.get_client_version()
    try:
        theirs = client.get_server_version()
    except RuntimeError as error:
        raise ServerUnreachableError(
            f"{host}:{port} accepts connections but does not answer as a CARLA server within {timeout:g} s"
        ) from error
    if mine != theirs:
        raise VersionError(
            f"the server at {host}:{port} is CARLA {theirs} and the client is {mine}; they must be equal, "
            f"so start a {mine} server"
        )
    return client


def probe(host: str, port: int) -> None:
    """Refuse at once where nothing listens; a CARLA client would time out on every single call."""
    try:
        socket.create_connection((host, port), timeout=PROBE_SECONDS).close()
    except OSError as error:
        raise ServerUnreachableError(
            f"no server listens at {host}:{port} ({error.strerror or error}); "
            "start CARLA there or use '--simulator embedded'"
        ) from error


def alive(host: str, port: int) -> bool:
    try:
        probe(host, port)
    except ServerUnreachableError:
        return False
    return True
