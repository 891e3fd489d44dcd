"""A link that can be slow, silent or cut: an HTTP CONNECT proxy, which gRPC uses if the environment names one."""

import contextlib
import socket
import threading
import time

_PIECE = 2**14


class Link:
    """Forwards bytes both ways; the link's faults are switched on and off while it does."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bytes_per_second: float | None = None
        """How fast it is, each way and connection; None for as fast as it can."""
        self._cut = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.connections = 0
        """How many were made in all."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to go this way."""
        return {"grpc_proxy": f"http://127.0.0.1:{self.port}", "no_grpc_proxy": "", "no_proxy": ""}

    def cut(self) -> None:
        """Break all connections and let nobody through."""
        self._cut.set()
        with self._lock:
            broken, self._open = self._open, set()
        for connection in broken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let everybody through again, as fast as it can."""
        self.bytes_per_second = None
        self._cut.clear()

    def close(self) -> None:
        """End it."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError, IndexError):
            request = b""
            while b"\r\n\r\n" not in request:
                if not (part := client.recv(4096)):
                    return
                request += part
            if self._cut.is_set():
                return
            host, _, port = request.split()[1].decode().rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                with self._lock:
                    self._open |= {client, server}
                back = threading.Thread(target=self._forward, args=(server, client), daemon=True)
                back.start()
                self._forward(client, server)
                back.join()
                with self._lock:
                    self._open -= {client, server}

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not self._cut.is_set() and (piece := source.recv(_PIECE)):
                if self.bytes_per_second is not None:
                    time.sleep(len(piece) / self.bytes_per_second)
                target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
