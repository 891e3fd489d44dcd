"""Calls that the real client does not make or does not offer."""

import socket

import msgpack


class Rpc:
    """A client that can say anything."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._unpacker = msgpack.Unpacker(strict_map_key=False)
        self._number = 0

    def call(self, method, *arguments, metadata=([False],)):
        self._number += 1
        self.socket.sendall(msgpack.packb([0, self._number, method, [*metadata, *arguments]]))
        while True:
            for reply in self._unpacker:
                assert reply[:2] == [1, self._number], reply
                return reply[2], reply[3]
            data = self.socket.recv(1 << 16)
            assert data, "the server closed the connection"
            self._unpacker.feed(data)

    def close(self):
        self.socket.close()


def assert_alive(port):
    """The server answers a new connection."""
    rpc = Rpc(port)
    assert rpc.call("version") == (None, [[1, "0.9.16"]])
    rpc.close()
