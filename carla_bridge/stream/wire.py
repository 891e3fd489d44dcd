"""The stream's messages over TCP: a length, then msgpack."""

import hmac
import socket
import struct
from contextlib import suppress
from typing import Any

import msgpack

from carla_bridge.errors import StreamClosedError, StreamError
from carla_bridge.packets import unpack

PROTOCOL = 1
MAX_REQUEST = 64 * 1024
MAX_MESSAGE = 128 * 1024 * 1024
LENGTH = struct.Struct("<I")


class Channel:
    """One side of a connection: sends and receives whole messages up to a size limit."""

    def __init__(self, connection: socket.socket, limit: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._limit = limit

    def send(self, message: dict[str, Any]) -> None:
        self.send_packed(msgpack.packb(message))

    def send_packed(self, packed: bytes) -> None:
        try:
            self._connection.sendall(LENGTH.pack(len(packed)))
            self._connection.sendall(packed)
        except OSError as error:
            raise StreamClosedError(f"the connection broke ({error})") from error

    def receive(self, timeout: float | None) -> dict[str, Any]:
        """The next message; raises StreamClosedError if the connection ends or is silent for too long."""
        self._connection.settimeout(timeout)
        try:
            (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
            if length > self._limit:
                raise StreamError(f"a message of {length} bytes exceeds the limit of {self._limit}")
            packed = self._exactly(length)
        except TimeoutError as error:
            raise StreamClosedError(f"the other side was silent for {timeout:g} s") from error
        except OSError as error:
            raise StreamClosedError(f"the connection broke ({error})") from error
        finally:
            self._connection.settimeout(None)
        return unpack(packed)

    def _exactly(self, count: int) -> bytes:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            received = self._connection.recv_into(view)
            if not received:
                raise StreamClosedError("the other side closed the connection")
            view = view[received:]
        return bytes(buffer)

    def shut_down(self) -> None:
        """End the connection from another thread; a send or receive under way raises StreamClosedError."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()


def proof(token: str, nonce: bytes, vehicle: str) -> bytes:
    """The answer of a client that knows the token to a server's nonce; the token itself is never sent."""
    return hmac.digest(token.encode(), nonce + vehicle.encode(), "sha256")
