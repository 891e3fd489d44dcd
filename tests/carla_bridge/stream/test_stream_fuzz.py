"""Garbage on the stream: whoever sends it is refused, and nobody else notices."""

import math
import socket
import threading
from contextlib import suppress

import msgpack
import pytest
from hypothesis import strategies as st

from carla_bridge.errors import StreamError
from carla_bridge.packets import decode_frame, encode_frame, unpack
from carla_bridge.stream.client import StreamClient
from carla_bridge.stream.wire import LENGTH, MAX_REQUEST, NONCE_SIZE, PROTOCOL, Channel
from tests.support.fuzzing import amounts, changed, damaged, fuzz, values
from tests.support.streams import TOKEN, CountingWorld, client_of, frame_at, seconds, serving

framed = st.binary(max_size=80).map(lambda body: LENGTH.pack(len(body)) + body)
messages = st.dictionaries(st.sampled_from(["vehicle", "nonce", "proof", "protocol", "x"]), values | st.binary())
packed = messages.map(lambda message: LENGTH.pack(len(msgpack.packb(message))) + msgpack.packb(message))
noise = st.lists(st.binary(max_size=40) | framed | packed, max_size=4).map(b"".join)


@pytest.fixture
def server():
    with serving(CountingWorld()) as running:
        yield running


class Witness:
    """A collaborator that is served all the time, by one and the same connection."""

    def __init__(self, server):
        self._client = client_of(server, "vehicle_1", patience=10)
        self._channel = self._client._channel

    def check(self):
        assert seconds(self._client.window(0, 2)) == [0, 1]
        assert self._client._channel is self._channel, "its connection was disturbed"

    def close(self):
        self._client.close()


@pytest.fixture
def witness(server):
    made = Witness(server)
    yield made
    made.close()


@amounts(200, 20_000)
def test_strangers_may_send_what_they_like(server, witness, examples):
    def check(sent):
        with socket.create_connection(server.address, timeout=10) as stranger:
            with suppress(OSError):
                stranger.sendall(sent)
                stranger.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while stranger.recv(1 << 16):
                    pass
        witness.check()

    fuzz(noise, check, examples)


def greeted(server, vehicle):
    """A connection that has proved itself, and may now ask for anything."""
    channel = Channel(connection := socket.create_connection(server.address, timeout=10), MAX_REQUEST)
    theirs, mine = channel.receive(10)["nonce"], bytes(NONCE_SIZE)
    proof = TOKEN.proof("client", theirs + mine, vehicle)
    channel.send({"vehicle": vehicle, "nonce": mine, "proof": proof})
    assert "classes" in channel.receive(10)
    return connection, channel


@amounts(150, 20_000)
def test_a_collaborator_that_asks_for_nonsense_is_refused_alone(server, witness, examples):
    def check(asked):
        connection, channel = greeted(server, "vehicle_2")
        with connection, suppress(OSError, StreamError):
            connection.sendall(asked) if isinstance(asked, bytes) else channel.send(asked)
            connection.shutdown(socket.SHUT_WR)
            while "end" not in channel.receive(10):
                pass
        witness.check()

    times = st.floats() | st.sampled_from([0, 1, -1, 1e9, math.nan, math.inf])
    asked = st.fixed_dictionaries(
        {}, optional={"start": times | values, "end": times | values, "after": times | values}
    )
    fuzz(asked | noise, check, examples)


@amounts(150, 20_000)
def test_a_client_refuses_a_server_that_talks_nonsense_in_one_sentence(examples):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

        def check(said):
            def talk():
                connection = listener.accept()[0]
                with connection, suppress(OSError):
                    connection.sendall(said)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass

            thread = threading.Thread(target=talk)
            thread.start()
            with pytest.raises(StreamError):
                StreamClient("127.0.0.1", address[1], "vehicle_1", TOKEN, patience=0)
            thread.join()

        fuzz(noise, check, examples)


@amounts(150, 20_000)
def test_a_server_that_proves_itself_and_then_talks_nonsense_is_refused_in_one_sentence(examples):
    """Welcomes, frames and ends with something wrong in them."""
    welcome = {"classes": ["car"], "frame_seconds": 1.0, "window_seconds": 10.0, "map": "Nowhere"}
    frame = unpack(encode_frame(frame_at("vehicle_1", 0), "raw", 90))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

        def check(said):
            first, others = said

            def talk():
                connection = listener.accept()[0]
                channel = Channel(connection, MAX_REQUEST)
                with connection, suppress(OSError, StreamError):
                    channel.send({"protocol": PROTOCOL, "nonce": bytes(NONCE_SIZE)})
                    nonces = bytes(NONCE_SIZE) + channel.receive(10)["nonce"]
                    proof = TOKEN.proof("server", nonces, "vehicle_1")
                    channel.send({**first, "proof": proof} if isinstance(first, dict) else {"proof": proof})
                    channel.receive(10)
                    for message in others:
                        channel.send_packed(message if isinstance(message, bytes) else msgpack.packb(message))
                    channel.send({"error": "that was all"})
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass

            thread = threading.Thread(target=talk)
            thread.start()
            with suppress(StreamError), StreamClient("127.0.0.1", address[1], "vehicle_1", TOKEN, patience=0) as client:
                _ = (client.classes, client.frame_seconds)
                list(client.window(0, 10))
            thread.join()

        ends = changed({"end": 10.0, "gaps": [[1.0, "lost", 2.0]]})
        following = st.lists(changed(frame) | ends | messages | st.binary(max_size=30), max_size=3)
        fuzz(st.tuples(st.just(welcome) | changed(welcome), following), check, examples)


@amounts(300, 20_000)
def test_a_frame_that_is_malformed_is_refused_in_one_sentence(examples):
    files = [encode_frame(frame_at("vehicle_1", 3), encoding, 90) for encoding in ("raw", "png", "jpeg")]

    def check(data):
        with suppress(StreamError):
            decode_frame(unpack(data))

    documents = st.sampled_from([unpack(file) for file in files]).flatmap(changed).map(msgpack.packb)
    fuzz(st.sampled_from(files).flatmap(damaged) | documents | st.binary(max_size=60), check, examples)
