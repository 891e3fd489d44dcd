"""The stream over real sockets: who gets what, who waits, who is refused."""

import threading
import time

import numpy as np
import pytest

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import StreamError
from carla_bridge.packets import Gap, Packet, decode_frame, encode_frame, unpack
from carla_bridge.stream.client import StreamClient
from carla_bridge.stream.retention import Retention
from tests.support.streams import NAMES, TOKEN, CountingWorld, client_of, frame_at, seconds, serving


@pytest.mark.parametrize("encoding", ["raw", "png"])
def test_a_frame_survives_the_wire_bit_for_bit(encoding):
    frame = frame_at("vehicle_1", 77)
    again = decode_frame(unpack(encode_frame(frame, encoding, 90)))
    assert np.array_equal(again.image, frame.image)
    assert list(again.annotations) == list(frame.annotations)
    assert (again.frame, again.timestamp, again.vehicle, again.domain) == (77, 77.0, "vehicle_1", "city")
    again.image[0] = 0  # its arrays are its own


def test_windows_are_complete_ordered_and_the_same_when_asked_again():
    with (
        serving(CountingWorld()) as server,
        client_of(server, "vehicle_1") as one,
        client_of(server, "vehicle_2") as two,
    ):
        assert one.classes == CarlaSettings().class_names
        first = list(one.window(0, 10))
        assert seconds(first) == list(range(10))
        assert [list(frame.annotations) for frame in one.window(0, 10)] == [list(f.annotations) for f in first]
        assert seconds(two.window(0, 10)) == list(range(10))
        assert seconds(two.window(10, 20)) == list(range(10, 20))
        assert seconds(one.window(10, 20)) == list(range(10, 20))
        with pytest.raises(StreamError, match="before second 10 are gone"):
            list(one.window(0, 10))


def test_nobody_gets_more_than_a_window_ahead_and_memory_stays_bounded():
    world = CountingWorld()
    with serving(world) as server, client_of(server, "vehicle_1") as fast, client_of(server, "vehicle_2") as slow:
        assert seconds(fast.window(0, 10)) == list(range(10))
        waits: list[float] = []
        done = threading.Event()

        def hurry():
            waits.extend(seconds(fast.window(10, 20)))
            done.set()

        thread = threading.Thread(target=hurry)
        thread.start()
        # The slow one has not asked at all: the world stays at the end of the first window.
        assert not done.wait(0.5)
        assert world.time == 10
        assert server.retention.count() <= 2 * 10 * 2
        assert seconds(slow.window(0, 10)) == list(range(10))
        assert done.wait(20)
        thread.join()
        assert waits == list(range(10, 20))
        assert world.time == 20
        assert seconds(slow.window(10, 20)) == list(range(10, 20))


def test_the_world_waits_while_nobody_asks():
    world = CountingWorld()
    with serving(world) as server, client_of(server, "vehicle_1") as one:
        assert seconds(one.window(0, 5)) == list(range(5))
        time.sleep(0.2)
        assert world.time == 5


def test_resuming_collaborators_begin_at_the_earliest_of_their_windows():
    world = CountingWorld()
    with serving(world) as server, client_of(server, "vehicle_1") as one, client_of(server, "vehicle_2") as two:
        got: list[float] = []
        thread = threading.Thread(target=lambda: got.extend(seconds(one.window(110, 120))))
        thread.start()
        assert seconds(two.window(100, 110)) == list(range(100, 110))
        thread.join(20)
        assert got == list(range(110, 120))


def test_a_collaborator_that_leaves_in_the_middle_comes_back_to_its_window():
    with serving(CountingWorld()) as server:
        with client_of(server, "vehicle_1") as one:
            half = [next(frames) for frames in [one.window(0, 10)] for _ in range(5)]
        assert seconds(half) == list(range(5))
        with client_of(server, "vehicle_1") as again:
            assert seconds(again.window(0, 10)) == list(range(10))


def test_a_restarted_server_is_found_again_without_loss_or_repetition():
    with serving(CountingWorld()) as server:
        port = server.address[1]
        client = client_of(server, "vehicle_1")
        assert seconds(client.window(0, 5)) == list(range(5))
        frames = client.window(5, 15)
        got = [next(frames).timestamp for _ in range(3)]
    with serving(CountingWorld(), port=port) as second:
        second.retention.ask("vehicle_2", 5, 15)
        got += seconds(frames)
    client.close()
    assert got == list(range(5, 15))


def test_a_newer_connection_of_a_vehicle_replaces_the_older():
    with serving(CountingWorld()) as server:
        old = client_of(server, "vehicle_1")
        new = client_of(server, "vehicle_1")
        assert seconds(new.window(0, 3)) == [0, 1, 2]
        old.close()
        new.close()


def test_gaps_are_told(caplog):
    with serving(CountingWorld()) as server, client_of(server, "vehicle_1") as one:
        server.retention.add_gap(Gap(3.0, "the server closed its connections", 1.5))
        list(one.window(0, 5))
    assert "replaced before second 3" in caplog.text


def test_a_fleet_that_fails_for_good_tells_everybody_why():
    world = CountingWorld()
    world.fails_at = 3
    with (
        serving(world) as server,
        client_of(server, "vehicle_1") as one,
        pytest.raises(StreamError, match="the plan was wrong after all"),
    ):
        list(one.window(0, 10))


def test_wrong_vehicle_and_window_are_refused_in_one_sentence():
    with serving(CountingWorld()) as server:
        with pytest.raises(StreamError, match="no vehicle 'vehicle_9'; valid values: vehicle_1, vehicle_2"):
            client_of(server, "vehicle_9")
        with client_of(server, "vehicle_1") as one:
            with pytest.raises(StreamError, match="longer than the 10 s"):
                list(one.window(0, 11))
            with pytest.raises(StreamError, match="not a span"):
                list(one.window(5, 5))
            assert seconds(one.window(0, 2)) == [0, 1]


def test_without_a_server_the_client_gives_up_in_one_sentence():
    with pytest.raises(StreamError, match=r"no stream for v at 127\.0\.0\.1:1 within 0\.2 s .*carla-bridge serve"):
        StreamClient("127.0.0.1", 1, "v", TOKEN, patience=0.2)


def test_garbage_on_the_socket_harms_nobody():
    import socket

    with serving(CountingWorld()) as server:
        for garbage in (b"\xff\xff\xff\xff", b"\x03\x00\x00\x00abc", b"GET / HTTP/1.1\r\n\r\n", b""):
            with socket.create_connection(server.address) as stranger:
                stranger.sendall(garbage)
        with client_of(server, "vehicle_1") as one:
            assert seconds(one.window(0, 3)) == [0, 1, 2]


def test_many_windows_by_two_threads_are_disjoint_and_complete():
    """Two collaborators of different speed, many small windows: every second exactly once, in order."""
    with serving(CountingWorld(window=4.0)) as server:
        results: dict[str, list[float]] = {name: [] for name in NAMES}

        def collect(name, pause):
            with client_of(server, name) as client:
                for start in range(0, 120, 4):
                    results[name] += seconds(client.window(start, start + 4))
                    time.sleep(pause)

        threads = [
            threading.Thread(target=collect, args=(name, pause)) for name, pause in zip(NAMES, (0, 0.005), strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert results == {name: [float(second) for second in range(120)] for name in NAMES}


def test_retention_drops_what_a_vehicle_skipped():
    retention = Retention(NAMES, 10.0)
    retention.ask("vehicle_1", 5, 10)
    for second in range(10):
        retention.put(Packet("vehicle_1", float(second), b""))
        retention.put(Packet("vehicle_2", float(second), b""))
    assert retention.count() == 5 + 10
