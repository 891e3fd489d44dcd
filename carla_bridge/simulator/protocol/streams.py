"""Data streams: one TCP connection per subscriber and stream, each with a bounded queue.

In synchronous mode the world waits a little for a subscriber whose queue is full; if it stays full, the
world stops waiting for it, and as in asynchronous mode its oldest messages are dropped. So a slow or dead subscriber
does not block the others for long, and memory stays bounded.
"""

import asyncio
import contextlib
import logging
import socket
import struct
from collections import deque
from typing import cast

QUEUE = 4
"""Messages kept for a subscriber that does not read."""
PATIENCE = 3.0
"""Seconds that the world waits for a full queue in synchronous mode."""
HANDSHAKE = 10.0
"""Seconds within which a connection must name its stream, and for which an unused token is waited for."""
SUBSCRIPTION = 2.0
"""Seconds that the world waits for the subscription to a stream whose token it has just sent."""
MOST_EXPECTED = 1000
"""How many subscriptions are waited for at once; no client uses as many tokens at a time."""
DEPARTURE = 0.5
"""Seconds that the world waits for a client to drop a stream when it is known to do so."""
SEND_BUFFER = 1 << 21

log = logging.getLogger(__name__)


class Subscriber(asyncio.Protocol):
    """One connection: it names its stream in four bytes, then only reads."""

    def __init__(self, hub: "StreamHub") -> None:
        self._hub = hub
        self._handshake = b""
        self._pending: deque[bytes] = deque()
        self._writable = True
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle
        self.stream: int | None = None
        self.set_aside = False
        self.room = asyncio.Event()
        self.room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        peer = self._transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE, self._give_up)
        self._hub.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self.stream is not None:
            return  # nothing more is expected, so it is discarded
        self._handshake += data[:4]
        if len(self._handshake) >= 4:
            self._deadline.cancel()
            self.stream = struct.unpack("<I", self._handshake[:4])[0]
            self._hub.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._pending.clear()
        self.room.set()
        self._hub.connections.discard(self)
        self._hub.left(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        # not from within the transport's write: a connection that breaks there would be reported lost twice
        asyncio.get_running_loop().call_soon(self._send_pending)

    def _send_pending(self) -> None:
        while self._pending and self._writable:
            self._transport.write(self._pending.popleft())
        if len(self._pending) < QUEUE:
            self.room.set()
        if not self._pending:
            self.set_aside = False

    def send(self, message: bytes) -> None:
        """Send a message now, or queue it and drop the oldest one if there is no room."""
        if self._writable and not self._pending:
            self._transport.write(message)
            return
        self._pending.append(message)
        while len(self._pending) > QUEUE:
            self._pending.popleft()
        if len(self._pending) >= QUEUE:
            self.room.clear()

    def close(self) -> None:
        self._transport.abort()

    def _give_up(self) -> None:
        log.debug("closed a stream connection that named no stream")
        self._transport.abort()


class StreamHub:
    """All streams of the server."""

    def __init__(self) -> None:
        self.connections: set[Subscriber] = set()
        self._streams: dict[int, list[Subscriber]] = {}
        self._expected: deque[tuple[int, float, asyncio.Event]] = deque(maxlen=MOST_EXPECTED)
        """Streams whose tokens were sent to clients, and when."""
        self._first_messages: dict[int, bytes] = {}
        self._departure: tuple[int, asyncio.Event] | None = None
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; OSError if the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Subscriber(self), host, port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for subscriber in list(self.connections):
            subscriber.close()

    def set_first_message(self, stream: int, message: bytes) -> None:
        """Set the message that every new subscriber of the stream receives at once."""
        self._first_messages[stream] = message

    def expect(self, stream: int) -> None:
        """Announce that a client has asked for this stream's token and will subscribe."""
        self._expected.append((stream, asyncio.get_running_loop().time(), asyncio.Event()))

    def joined(self, subscriber: Subscriber) -> None:
        assert subscriber.stream is not None
        self._streams.setdefault(subscriber.stream, []).append(subscriber)
        for promise in self._expected:
            stream, _, come = promise
            if stream == subscriber.stream:
                come.set()
                self._expected.remove(promise)
                break
        first = self._first_messages.get(subscriber.stream)
        if first is not None:
            subscriber.send(first)

    def left(self, subscriber: Subscriber) -> None:
        others = self._streams.get(subscriber.stream) if subscriber.stream is not None else None
        if others and subscriber in others:
            others.remove(subscriber)
            if self._departure is not None and self._departure[0] == subscriber.stream:
                self._departure[1].set()
            if not others and subscriber.stream is not None:
                del self._streams[subscriber.stream]

    def expect_departure(self, stream: int) -> None:
        """Announce that a client will drop this stream; it would crash if a message reached it before that."""
        if stream in self._streams:
            self._departure = (stream, asyncio.Event())

    async def await_departure(self) -> None:
        """Wait, within bounds, for a client to drop a stream as expected."""
        if self._departure is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._departure[1].wait(), DEPARTURE)
            self._departure = None

    def has_listeners(self, stream: int) -> bool:
        return stream in self._streams

    def publish(self, stream: int, message: bytes | memoryview) -> None:
        """Send all subscribers one copy, because since Python 3.12 transports keep a reference to unsent data."""
        if subscribers := self._streams.get(stream):
            copy = bytes(message)
            for subscriber in subscribers:
                subscriber.send(copy)

    async def wait_for_subscribers(self) -> None:
        """Wait, within bounds, for promised subscriptions and for room in every queue."""
        recently = asyncio.get_running_loop().time() - HANDSHAKE
        waiting = [asyncio.ensure_future(come.wait()) for _, since, come in self._expected if since > recently]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=SUBSCRIPTION)
            for task in late:
                task.cancel()
        self._expected.clear()
        full = [s for s in self.connections if not s.room.is_set() and not s.set_aside]
        if full:
            waiting = [asyncio.ensure_future(subscriber.room.wait()) for subscriber in full]
            _, late = await asyncio.wait(waiting, timeout=PATIENCE)
            for task in late:
                task.cancel()
            for subscriber in full:
                subscriber.set_aside = not subscriber.room.is_set()
