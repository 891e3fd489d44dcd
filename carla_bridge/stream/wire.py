"""The stream's messages: a length, then msgpack. Frames are packed once and passed on as bytes."""

import hmac
import socket
import struct
from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from carla_bridge import images
from carla_bridge.config.section import Encoding
from carla_bridge.errors import BridgeError
from carla_bridge.frames import Annotations, Frame

PROTOCOL = 1
MAX_REQUEST = 64 * 1024
MAX_MESSAGE = 128 * 1024 * 1024
LENGTH = struct.Struct("<I")


class StreamError(BridgeError):
    """The other side of a stream refused, misbehaved or went away."""


class StreamClosedError(StreamError):
    """The connection ended."""


def encode_frame(frame: Frame, encoding: Encoding, jpeg_quality: int) -> bytes:
    """Pack a frame; raw pixels and PNG lose nothing."""
    if encoding == "raw":
        image = np.ascontiguousarray(frame.image).tobytes()
    else:
        image = images.encode(frame.image, jpeg_quality if encoding == "jpeg" else None).tobytes()
    notes = frame.annotations
    packed: bytes = msgpack.packb(
        {
            "frame": frame.frame,
            "timestamp": frame.timestamp,
            "vehicle": frame.vehicle,
            "domain": frame.domain,
            "encoding": encoding,
            "shape": frame.image.shape[:2],
            "image": image,
            "boxes": notes.boxes.astype("<f4").tobytes(),
            "labels": notes.labels.astype("<i8").tobytes(),
            "truncated": notes.truncated.astype("?").tobytes(),
            "pixels": notes.pixels.astype("<i8").tobytes(),
            "object_ids": notes.object_ids.astype("<i8").tobytes(),
        }
    )
    return packed


def decode_frame(entry: dict[str, Any]) -> Frame:
    """A frame with arrays of its own from an unpacked message; a malformed one raises StreamError."""
    try:
        height, width = entry["shape"]
        image: NDArray[np.uint8] | None
        if entry["encoding"] == "raw":
            image = np.frombuffer(entry["image"], np.uint8).reshape(height, width, 3).copy()
        else:
            image = images.decode(entry["image"])
        if image is None or image.shape != (height, width, 3):
            raise ValueError("the image is broken")
        return Frame(
            image=image,
            frame=entry["frame"],
            timestamp=entry["timestamp"],
            annotations=Annotations(
                boxes=np.frombuffer(entry["boxes"], "<f4").reshape(-1, 4).astype(np.float32),
                labels=np.frombuffer(entry["labels"], "<i8").astype(np.int64),
                truncated=np.frombuffer(entry["truncated"], "?").astype(np.bool_),
                pixels=np.frombuffer(entry["pixels"], "<i8").astype(np.int64),
                object_ids=np.frombuffer(entry["object_ids"], "<i8").astype(np.int64),
            ),
            vehicle=entry["vehicle"],
            domain=entry["domain"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StreamError(f"a frame of the stream is malformed ({error})") from error


class Channel:
    """One side of a connection: whole messages out, whole messages in, never more than a limit."""

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
        """The next message; StreamClosedError where the connection ends or stays silent for too long."""
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
        """End the conversation from another thread; whoever sends or receives gets StreamClosedError."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()


def unpack(packed: bytes) -> dict[str, Any]:
    try:
        message = msgpack.unpackb(packed)
    except (ValueError, msgpack.UnpackException) as error:
        raise StreamError(f"a message is not msgpack ({error})") from error
    if not isinstance(message, dict):
        raise StreamError(f"a message is a {type(message).__name__}, not a mapping")
    return message


def proof(token: str, nonce: bytes, vehicle: str) -> bytes:
    """What a client that knows the token answers to a server's nonce; the token itself never travels."""
    return hmac.digest(token.encode(), nonce + vehicle.encode(), "sha256")
