"""msgpack-rpc over TCP: requests `[0, id, method, arguments]`, replies `[1, id, nil, result]`."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from carla_bridge.simulator.errors import RefusedError

Handler = Callable[["Caller", str, list[Any]], Awaitable[object]]
LARGEST_REQUEST = 64 * 1024 * 1024
MOST_SILENT = 512
"""How many connections that have never sent anything are kept; beyond that the oldest are closed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """A client, by the address at which it reaches the server."""

    server_host: str


class RpcServer:
    """Answers each connection's requests in order; a connection that breaks the protocol is closed."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; OSError if the port is taken."""
        self._server = await asyncio.start_server(self._accept, host, port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._silent[writer] = None
        while len(self._silent) > MOST_SILENT:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.transport.abort()
        try:
            await self._serve(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._silent.pop(writer, None)
            with contextlib.suppress(Exception):
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = writer.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        caller = Caller(writer.get_extra_info("sockname")[0])
        unpacker = msgpack.Unpacker(max_buffer_size=LARGEST_REQUEST, strict_map_key=False, unicode_errors="replace")
        while data := await reader.read(1 << 18):
            self._silent.pop(writer, None)
            try:
                unpacker.feed(data)
                requests = list(unpacker)
            except Exception as error:  # msgpack raises many types; all mean malformed data
                log.warning("closed a connection that sent malformed msgpack (%s)", type(error).__name__)
                return
            for request in requests:
                reply = await self._answer(caller, request)
                if reply is None:
                    return
                writer.write(reply)
                await writer.drain()  # a client that does not read is not answered
                if len(requests) > 1:
                    await asyncio.sleep(0)  # a client with many requests does not keep the others waiting

    async def _answer(self, caller: Caller, request: Any) -> bytes | None:
        if not (
            isinstance(request, list)
            and len(request) == 4
            and request[0] == 0
            and isinstance(request[1], int)
            and isinstance(request[2], str)
            and isinstance(request[3], list)
        ):
            log.warning("closed a connection that sent something other than an RPC request")
            return None
        _, number, method, arguments = request
        try:
            reply = [1, number, None, await self._handler(caller, method, arguments)]
        except RefusedError as refusal:
            reply = [1, number, str(refusal), None]
        except Exception:
            log.exception("internal error in %s", method)
            reply = [1, number, f"internal error in {method}", None]
        packed: bytes = msgpack.packb(reply)
        return packed
