"""The collaborator's side of the stream: a frame source that survives lost connections and restarted servers."""

import logging
import math
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from carla_bridge.errors import StreamClosedError, StreamError
from carla_bridge.frames import Frame
from carla_bridge.packets import decode_frame
from carla_bridge.stream.identity import Identity, client_identity
from carla_bridge.stream.wire import MAX_MESSAGE, MAX_REQUEST, NONCE_SIZE, PROTOCOL, Channel

SILENCE_SECONDS = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Welcome:
    """What a server says about its stream."""

    classes: tuple[str, ...]
    frame_seconds: float

    @classmethod
    def of(cls, message: dict[str, Any]) -> "_Welcome":
        try:
            return cls(tuple(map(str, message["classes"])), float(message["frame_seconds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StreamError(f"the server's welcome is malformed ({error})") from error


class StreamClient:
    """The frames of one vehicle of a `carla-bridge serve`.

    If a connection breaks, the client connects again and the window continues after the last frame received, so that
    no frame is missing or repeated. After `patience` seconds without a sign of the server it gives up.
    """

    def __init__(
        self,
        host: str,
        port: int,
        vehicle: str,
        identity: Identity | None = None,
        *,
        patience: float = 120.0,
        on_waiting: Callable[[str], None] = logger.debug,
    ) -> None:
        self.vehicle = vehicle
        self._address = (host, port)
        self._identity = identity or client_identity(host, port, vehicle)
        self._patience = patience
        self._on_waiting = on_waiting
        self._channel: Channel | None = None
        self._closing = threading.Event()
        self._welcome: _Welcome
        self._reconnect(time.monotonic() + patience)

    @property
    def classes(self) -> tuple[str, ...]:
        return self._welcome.classes

    @property
    def frame_seconds(self) -> float:
        """Simulation time between two frames."""
        return self._welcome.frame_seconds

    def window(self, start: float, end: float) -> Iterator[Frame]:
        """The frames with start <= timestamp < end as the world produces them."""
        after, ended = -math.inf, False
        deadline = time.monotonic() + self._patience
        while not ended:
            try:
                if self._channel is None:
                    self._reconnect(deadline)
                    assert self._channel is not None
                self._channel.send({"start": start, "end": end, "after": after})
                while not ended:
                    message = self._channel.receive(SILENCE_SECONDS)
                    deadline = time.monotonic() + self._patience
                    if "image" in message:
                        frame = decode_frame(message)
                        after = frame.timestamp
                        yield frame
                    else:
                        ended = self._note(message)
            except StreamClosedError as error:
                self._drop()
                logger.warning("%s: %s; connecting again", self.vehicle, error)
            except GeneratorExit:
                self._drop()
                raise

    def close(self) -> None:
        self._closing.set()
        self._drop()

    def __enter__(self) -> "StreamClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _note(self, message: dict[str, Any]) -> bool:
        """Handle a message that is not a frame; true if the window has ended."""
        if "error" in message:
            self._drop()
            raise StreamError(f"the stream refused: {message['error']}")
        if "waiting" in message:
            self._on_waiting(message["waiting"])
            return False
        try:
            gaps = [(float(at), str(reason), float(seconds)) for at, reason, seconds in message.get("gaps", [])]
        except (TypeError, ValueError) as error:
            raise StreamError(f"the end of a window is malformed ({error})") from error
        for gap in gaps:
            logger.warning("the world was replaced before second %g (%s, %g s lost)", *gap)
        return "end" in message

    def _reconnect(self, deadline: float) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                self._connect()
                return
            except (OSError, StreamClosedError) as error:
                self._drop()
                host, port = self._address
                if time.monotonic() + pause > deadline or self._closing.wait(pause):
                    raise StreamError(
                        f"no stream for {self.vehicle} at {host}:{port} within {self._patience:g} s ({error}); "
                        "is 'carla-bridge serve' running there?"
                    ) from error
                pause = min(2 * pause, LONGEST_PAUSE)

    def _connect(self) -> None:
        connection = socket.create_connection(self._address, timeout=SILENCE_SECONDS)
        try:
            connection = self._identity.secure(connection)
        except BaseException:
            connection.close()
            raise
        self._channel = Channel(connection, MAX_REQUEST)
        try:
            self._welcome = self._greet(self._channel, connection)
            self._channel.limit = MAX_MESSAGE
        except StreamError as error:
            self._drop()
            refused = isinstance(error.__cause__, ssl.SSLError) and not isinstance(error.__cause__, ssl.SSLEOFError)
            if refused:
                raise StreamError(f"the server does not accept the certificate of {self.vehicle} ({error})") from error
            raise

    def _greet(self, channel: Channel, connection: socket.socket) -> "_Welcome":
        """What the server says about its stream, after both sides have proved themselves."""
        hello = channel.receive(SILENCE_SECONDS)
        if hello.get("protocol") != PROTOCOL:
            raise StreamError(f"the server speaks stream protocol {hello.get('protocol')!r}, not {PROTOCOL}")
        theirs, mine = hello.get("nonce"), secrets.token_bytes(NONCE_SIZE)
        if not isinstance(theirs, bytes) or len(theirs) != NONCE_SIZE:
            raise StreamError("the server's greeting has no nonce")
        proof = self._identity.proof("client", theirs + mine, self.vehicle)
        channel.send({"vehicle": self.vehicle, "nonce": mine, "proof": proof})
        welcome = channel.receive(SILENCE_SECONDS)
        if "error" in welcome:
            self._note(welcome)
        self._identity.check("server", connection, theirs + mine, self.vehicle, welcome.get("proof"))
        return _Welcome.of(welcome)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
