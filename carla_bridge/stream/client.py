"""The collaborator's side of the stream: a frame source that survives lost connections and restarted servers."""

import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from carla_bridge.errors import StreamClosedError, StreamError
from carla_bridge.frames import Frame
from carla_bridge.packets import decode_frame
from carla_bridge.stream.wire import MAX_MESSAGE, PROTOCOL, Channel, proof

SILENCE_SECONDS = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

logger = logging.getLogger(__name__)


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
        token: str | None = None,
        *,
        patience: float = 120.0,
        on_waiting: Callable[[str], None] = logger.debug,
    ) -> None:
        self.vehicle = vehicle
        self._address = (host, port)
        self._token = token
        self._patience = patience
        self._on_waiting = on_waiting
        self._channel: Channel | None = None
        self._closing = threading.Event()
        self._welcome: dict[str, Any] = {}
        self._reconnect(time.monotonic() + patience)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self._welcome["classes"])

    @property
    def frame_seconds(self) -> float:
        """Simulation time between two frames."""
        return float(self._welcome["frame_seconds"])

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
        for at, reason, seconds in message.get("gaps", []):
            logger.warning("the world was replaced before second %g (%s, %g s lost)", at, reason, seconds)
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
        self._channel = Channel(connection, MAX_MESSAGE)
        hello = self._channel.receive(SILENCE_SECONDS)
        if hello.get("protocol") != PROTOCOL:
            self._drop()
            raise StreamError(f"the server speaks stream protocol {hello.get('protocol')!r}, not {PROTOCOL}")
        if hello.get("token") and self._token is None:
            self._drop()
            raise StreamError("the stream wants a token")
        answer: dict[str, Any] = {"vehicle": self.vehicle}
        if self._token is not None:
            answer["proof"] = proof(self._token, hello["nonce"], self.vehicle)
        self._channel.send(answer)
        welcome = self._channel.receive(SILENCE_SECONDS)
        if "error" in welcome:
            self._note(welcome)
        self._welcome = welcome

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
