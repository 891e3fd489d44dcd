"""The stream's messages over TCP: a length, then msgpack."""

import socket
import struct
import time
from contextlib import suppress
from typing import Any

import msgpack

from carla_bridge.errors import StreamClosedError, StreamError
from carla_bridge.packets import unpack

PROTOCOL = 2
MAX_REQUEST = 64 * 1024
MAX_MESSAGE = 128 * 1024 * 1024
NONCE_SIZE = 32
LENGTH = struct.Struct("<I")


class Channel:
    """One side of a connection: sends and receives whole messages up to a limit of bytes."""

    def __init__(self, connection: socket.socket, limit: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self.limit = limit

    def send(self, message: dict[str, Any]) -> None:
        self.send_packed(msgpack.packb(message))

    def send_packed(self, packed: bytes) -> None:
        try:
            self._connection.sendall(LENGTH.pack(len(packed)))
            self._connection.sendall(packed)
        except OSError as error:
            raise StreamClosedError(f"the connection broke ({error})") from error

    def receive(self, silence: float | None) -> dict[str, Any]:
        """The next message; raises StreamClosedError if the connection ends or is silent for so many seconds."""
        return self._receive(silence, None)

    def receive_until(self, deadline: float) -> dict[str, Any]:
        """The next message, which must be there by a time of `time.monotonic`: a byte now and then does not help."""
        return self._receive(None, deadline)

    def _receive(self, silence: float | None, deadline: float | None) -> dict[str, Any]:
        try:
            self._connection.settimeout(silence)
            (length,) = LENGTH.unpack(self._exactly(LENGTH.size, deadline))
            if length > self.limit:
                raise StreamError(f"a message of {length} bytes exceeds the limit of {self.limit}")
            packed = self._exactly(length, deadline)
            self._connection.settimeout(None)
        except TimeoutError as error:
            raise StreamClosedError("the other side was silent for too long") from error
        except OSError as error:
            raise StreamClosedError(f"the connection broke ({error})") from error
        return unpack(packed)

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            if deadline is not None:
                if (left := deadline - time.monotonic()) <= 0:
                    raise TimeoutError
                self._connection.settimeout(left)
            received = self._connection.recv_into(view)
            if not received:
                raise StreamClosedError("the other side closed the connection")
            view = view[received:]
        return bytes(buffer)

    def shut_down(self) -> None:
        """End the connection from another thread; a send or receive under way raises StreamClosedError."""
        shut_down(self._connection)

    def close(self) -> None:
        self._connection.close()


def shut_down(connection: socket.socket) -> None:
    """End a connection that another thread uses.

    By the socket's own method: that of an encrypted one would let the other thread go on without encryption.
    """
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
