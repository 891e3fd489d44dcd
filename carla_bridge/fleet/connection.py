"""Connects to a CARLA server, or says in one sentence why that is not possible."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from carla_bridge.errors import ServerUnreachableError, VersionError

if TYPE_CHECKING:
    import carla

PROBE_SECONDS = 3.0


def connect(host: str, port: int, *, timeout: float, sensors: int) -> carla.Client:
    """A client of a server that runs the same CARLA version.

    The client gets a thread per sensor and two more: with fewer, a batch that ticks can wait forever for a snapshot,
    because no thread is left to receive it.
    """
    import carla  # lazily: the process that supervises a fleet only probes, and must not load the client library

    probe(host, port)
    client = carla.Client(host, port, sensors + 2)
    client.set_timeout(timeout)
    mine = client.get_client_version()
    try:
        theirs = client.get_server_version()
    except RuntimeError as error:
        raise ServerUnreachableError(
            f"{host}:{port} accepts connections but does not answer as a CARLA server within {timeout:g} s: "
            "another program has the port, or CARLA is still starting; see who has it with `ss -ltnp`, or check again"
        ) from error
    if mine != theirs:
        raise VersionError(
            f"the server at {host}:{port} is CARLA {theirs} and the client is {mine}; they must be equal, "
            f"so start a {mine} server"
        )
    return client


def probe(host: str, port: int) -> None:
    """Fail at once if nothing listens; a CARLA client would time out on every single call."""
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
