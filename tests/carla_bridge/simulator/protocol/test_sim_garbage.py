"""Garbage on the wire: that connection suffers, the others never notice."""

import random
import socket

import msgpack
import psutil
import pytest

from carla_bridge.simulator.protocol.actor_methods import ActorMethods
from carla_bridge.simulator.protocol.traffic_manager import TrafficManagerMethods
from carla_bridge.simulator.protocol.world_methods import WorldMethods
from tests.support.raw_rpc import Rpc, assert_alive

pytest_plugins = ("tests.support.simulator_servers",)
REQUESTS = (
    b"\xc1",
    b"\x00\x00\x00\x00",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x91" * 5000,
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    msgpack.packb({}),
    msgpack.packb([0, 1]),
    msgpack.packb([1, 2, None, None]),
    msgpack.packb([0, "x", "version", []]),
    msgpack.packb([0, 1, 5, []]),
    msgpack.packb([0, 1, "version", {}]),
)


@pytest.mark.parametrize("garbage", REQUESTS, ids=range(len(REQUESTS)))
def test_what_is_no_request_closes_the_connection(garbage, blank_server):
    with socket.create_connection(("127.0.0.1", blank_server.port), timeout=60) as link:
        link.sendall(garbage)
        link.shutdown(socket.SHUT_WR)
        assert link.recv(100) == b""
    assert_alive(blank_server.port)


def test_random_bytes_on_every_port(blank_server):
    chance = random.Random(5)
    manager = Rpc(blank_server.port).call("get_traffic_manager_running", 8000)[1][0][1][1]
    for number in range(150):
        port = (blank_server.port, blank_server.stream_port, manager)[number % 3]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
            link.sendall(chance.randbytes(chance.randrange(1, 3000)))
    assert_alive(blank_server.port)


def test_half_a_request_and_then_nothing(blank_server):
    links = []
    for _ in range(20):
        link = socket.create_connection(("127.0.0.1", blank_server.port), timeout=60)
        link.sendall(msgpack.packb([0, 1, "get_map_data", [[False]]])[:-2])
        links.append(link)
    assert_alive(blank_server.port)
    for link in links:
        link.close()


def anything(chance, depth=0):
    """A random msgpack value."""
    plain = [
        None,
        True,
        chance.randrange(-5, 200),
        2**63,
        chance.uniform(-1e3, 1e3),
        float("nan"),
        float("inf"),
        1e300,
        "vehicle.tesla.model3",
        "",
        b"\x00\xff",
    ]
    if depth < 3 and chance.random() < 0.5:
        return [anything(chance, depth + 1) for _ in range(chance.randrange(8))]
    return chance.choice(plain)


def method_names():
    def names(service):
        return [name for name in dir(service) if not name.startswith("_")]

    return names(ActorMethods) + names(WorldMethods), names(TrafficManagerMethods)


@pytest.mark.parametrize("seed", range(4))
def test_wrong_types_get_an_answer_and_no_internal_error(seed, new_server):
    server = new_server()
    chance = random.Random(seed)
    rpc = Rpc(server.port)
    manager = Rpc(rpc.call("get_traffic_manager_running", 8000)[1][0][1][1])
    ours, theirs = method_names()
    rpc.call("spawn_actor", [0, "vehicle.tesla.model3", []], [[0, 0, 0], [0, 0, 0]])
    for _ in range(400):
        name = chance.choice(ours)
        arguments = [anything(chance) for _ in range(chance.randrange(4))]
        error, result = rpc.call(name, *arguments)
        assert error is None
        assert "internal error" not in str(result), (name, arguments, result)
        if name == "apply_batch":
            assert all(isinstance(response, list) and len(response) == 1 for response in result), result
        error, _ = manager.call(chance.choice(theirs), *(anything(chance) for _ in range(3)), metadata=())
        assert "internal error" not in str(error)
    for command in range(23):
        for _ in range(5):
            fields = [[command, [anything(chance) for _ in range(chance.randrange(7))]]]
            error, result = rpc.call("apply_batch", [fields], False)
            assert error is None
            [[[succeeded, answer]]] = result
            assert isinstance(answer, int) if succeeded else [type(text) for text in answer] == [str], result
            assert "internal error" not in str(result), (fields, result)
    assert_alive(server.port)


def test_unknown_methods_are_refused_by_name(blank_server):
    rpc = Rpc(blank_server.port)
    assert rpc.call("fly") == (None, [[0, ["not served: fly"]]])
    assert rpc.call("version", 1, 2)[1][0][0] == 0
    assert rpc.call("spawn_actor", [0, "vehicle.unknown", []], [[0, 0, 0], [0, 0, 0]])[1][0][1] == [
        "not served: blueprint 'vehicle.unknown'"
    ]
    assert rpc.call("version") == (None, [[1, "0.9.16"]]), "the connection stays usable"


def test_refusals_repeat_only_the_beginning_of_what_a_client_sent(new_server):
    """Answers, log and memory: a megabyte in each of a thousand refusals would be a gigabyte."""
    server = new_server()
    rpc, junk = Rpc(server.port), "x" * 1_000_000
    manager = Rpc(rpc.call("get_traffic_manager_running", 8000)[1][0][1][1])
    place = [[0, 0, 0], [0, 0, 0]]
    for name, *arguments in (
        (junk,),
        ("load_new_episode", junk, True, 0),
        ("request_file", junk),
        ("spawn_actor", [0, junk, []], place),
        ("spawn_actor", [0, "vehicle.audi.tt", [[junk, 4, "a"]]], place),
        ("spawn_actor", [0, "sensor.camera.rgb", [["fov", 3, junk]]], place),
    ):
        error, [[succeeded, [message]]] = rpc.call(name, *arguments)
        assert error is None
        assert not succeeded
        assert len(message) == 300
        assert message.endswith("...")
    error, _ = manager.call(junk, metadata=())
    assert len(error) == 300
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    for number in range(100):
        rpc.call(f"{number}{junk}")
    assert process.memory_info().rss - before < 50e6


def test_attachment_types_that_a_batch_leaves_unset_do_not_matter(blank_server):
    rpc = Rpc(blank_server.port)
    place = rpc.call("get_map_info")[1][0][1][1][20]
    car = rpc.call("spawn_actor", [0, "vehicle.audi.tt", []], place)[1][0][1][0]
    mounted = [[0, "sensor.other.gnss", []], [[0, 0, 0], [0, 0, 0]], [True, car], 200, "", []]
    _, [[answer]] = rpc.call("apply_batch", [[[0, mounted]]], False)
    assert answer[0] == 1, answer
    rpc.call("destroy_actor", car)
    rpc.close()
