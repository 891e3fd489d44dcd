"""Bad input, dead clients and slow readers: that connection suffers, the others never notice."""

import asyncio
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

import carla
import msgpack
import psutil
import pytest

from carla_bridge.simulator.methods_actors import ActorMethods
from carla_bridge.simulator.methods_world import WorldMethods
from carla_bridge.simulator.server import SimulatorServer
from carla_bridge.simulator.studio import Studio
from carla_bridge.simulator.town import build_town
from carla_bridge.simulator.traffic_manager import TrafficManagerMethods
from carla_bridge.simulator.world import World
from tests.carla_bridge.simulator.client_tools import at, blueprint, connect, fresh, listening
from tests.carla_bridge.simulator.raw_rpc import Rpc

pytest_plugins = ("tests.carla_bridge.simulator.servers",)
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


def assert_alive(port):
    rpc = Rpc(port)
    assert rpc.call("version") == (None, [[1, "0.9.16"]])
    rpc.close()


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


def test_thousands_of_silent_connections(new_server):
    server = new_server()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 3000 <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3000, hard))
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 3000:
        pytest.skip("this process may not open 3000 files")
    links = []
    try:
        for number in range(2400):
            port = server.port if number % 2 else server.stream_port
            links.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        assert_alive(server.port)
        open_files = psutil.Process(server.process.pid).num_fds()
        assert open_files < 2000, "silent RPC connections are not hoarded"
    finally:
        for link in links:
            link.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert_alive(server.port)


def subscribe(port, stream):
    link = socket.create_connection(("127.0.0.1", port), timeout=60)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.sendall(struct.pack("<I", stream))
    return link


def watch_with_a_sleeper(port, stream_port, pid):
    """A subscriber that never reads, beside one that does: (seconds, growth of the server in MB)."""
    client, world = connect(port)
    world = fresh(client)
    camera = world.spawn_actor(
        blueprint(world, "sensor.camera.rgb", image_size_x=800, image_size_y=600), carla.Transform()
    )
    world.tick()
    # streams are numbered; the camera's is the newest, so the next ones are harmless to subscribe to
    sleepers = [subscribe(stream_port, stream) for stream in range(1, 40) for _ in range(2)]
    process = psutil.Process(pid)
    with listening(camera) as (images,):
        world.tick()
        before = process.memory_info().rss
        start = time.monotonic()
        for _ in range(250):
            frame = world.tick()
            at(images, frame)
        seconds = time.monotonic() - start
        growth = (process.memory_info().rss - before) / 1e6
    for link in sleepers:
        link.close()
    camera.destroy()
    return seconds, growth


def episode_in(link):
    """The episode that the next world state of a subscriber belongs to."""
    (length,) = struct.unpack("<I", receive(link, 4))
    return struct.unpack_from("<Q", receive(link, length), 48)[0]


def receive(link, count):
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        assert part, "the server closed the stream"
        data += part
    return data


def test_a_new_episode_does_not_reach_a_client_while_it_drops_the_old_one(new_server):
    """The client library crashes on a message that arrives between the answer and its change of subscription."""
    server = new_server()
    rpc = Rpc(server.port)
    _, [[_, settings]] = rpc.call("get_episode_settings")
    rpc.call("set_episode_settings", [True, *settings[1:]])
    old = subscribe(server.stream_port, 1)
    first = episode_in(old)
    rpc.call("load_new_episode", "", True, 0xFFFF)
    answered = time.monotonic()
    new = subscribe(server.stream_port, 1)
    assert episode_in(new) == first + 1, "the first state of a new subscription is of the new episode"
    assert episode_in(old) == first + 1, "who stays learns of the new episode"
    assert time.monotonic() - answered > 0.4
    for link in (old, new):
        link.close()
    rpc.close()


def test_a_subscriber_that_never_reads_costs_neither_time_nor_memory(new_server, isolated):
    server = new_server()
    seconds, growth = isolated(watch_with_a_sleeper, server.port, server.stream_port, server.process.pid)
    assert growth < 80, "250 frames are 480 MB"
    assert seconds < 80


def test_attachment_types_that_a_batch_leaves_unset_do_not_matter(blank_server):
    rpc = Rpc(blank_server.port)
    place = rpc.call("get_map_info")[1][0][1][1][20]
    car = rpc.call("spawn_actor", [0, "vehicle.audi.tt", []], place)[1][0][1][0]
    mounted = [[0, "sensor.other.gnss", []], [[0, 0, 0], [0, 0, 0]], [True, car], 200, "", []]
    _, [[answer]] = rpc.call("apply_batch", [[[0, mounted]]], False)
    assert answer[0] == 1, answer
    rpc.call("destroy_actor", car)
    rpc.close()


def test_who_asks_much_and_reads_nothing_costs_the_others_nothing(new_server):
    server = new_server()
    process = psutil.Process(server.process.pid)
    rpc, greedy = Rpc(server.port), Rpc(server.port)
    rpc.call("version")
    before = process.memory_info().rss
    greedy.socket.sendall(b"".join(msgpack.packb([0, n, "get_map_data", [[False]]]) for n in range(3000)))
    slowest = 0.0
    for _ in range(20):
        start = time.monotonic()
        assert rpc.call("version") == (None, [[1, "0.9.16"]])
        slowest = max(slowest, time.monotonic() - start)
    assert slowest < 3, "all of the map 3,000 times takes eight seconds"
    assert process.memory_info().rss - before < 100e6, "and a gigabyte"
    greedy.close()
    rpc.close()


def far_away(port):
    """Out of the world with a GNSS on board."""
    client, world = connect(port)
    world = fresh(client)
    settings = world.get_settings()
    settings.fixed_delta_seconds = 0.2
    world.apply_settings(settings)
    car = world.spawn_actor(blueprint(world, "vehicle.audi.tt"), world.get_map().get_spawn_points()[0])
    car.enable_constant_velocity(carla.Vector3D(9.9e6, 0, 0))
    gnss = world.spawn_actor(blueprint(world, "sensor.other.gnss"), carla.Transform(), attach_to=car)
    with listening(gnss) as (data,):
        for _ in range(3000):
            frame = world.tick()
        at(data, frame)


def test_a_vehicle_beyond_all_maps_does_not_stop_the_world(new_server, isolated):
    isolated(far_away, new_server().port)


def test_a_world_that_fails_once_goes_on(caplog):
    """Asynchronous, where no client asks for ticks and so none can be told."""
    world = World(*build_town(0), 0)
    advance, failures, went_on = world.advance, iter([True, True]), asyncio.Event()

    def fail_twice():
        if next(failures, False):
            raise ArithmeticError
        went_on.set()
        return advance()

    world.advance = fail_twice  # type: ignore[method-assign]

    async def run():
        studio = Studio("carla_bridge.simulator.pictures:NoPicture")
        await studio.open()
        server = SimulatorServer(world, studio)
        await server.start("127.0.0.1", 0)
        serving = asyncio.create_task(server.serve_forever())
        await went_on.wait()
        serving.cancel()
        await server.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert len(caplog.records) == 1, "told once, not at every tick"


VICTIM = """
import sys, threading, carla
client = carla.Client("127.0.0.1", int(sys.argv[1]), 4)
client.set_timeout(30)
world = client.get_world()
library = world.get_blueprint_library()
camera = library.find("sensor.camera.rgb")
camera.set_attribute("image_size_x", "1280"); camera.set_attribute("image_size_y", "720")
sensor = world.spawn_actor(camera, carla.Transform())
streaming = threading.Event()
sensor.listen(lambda image: streaming.set())
manager = client.get_trafficmanager()
streaming.wait()
print("ready", flush=True)
while True:
    world.wait_for_tick()
"""


def still_works(port):
    client, world = connect(port)
    world = fresh(client)
    camera = world.spawn_actor(
        blueprint(world, "sensor.camera.rgb", image_size_x=64, image_size_y=32), carla.Transform()
    )
    with listening(camera) as (images,):
        for _ in range(20):
            at(images, world.tick())
    camera.destroy()
    return True


def test_a_killed_client_leaves_the_others_alone(new_server, isolated):
    server = new_server()
    for _ in range(2):
        victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(server.port)], stdout=subprocess.PIPE, text=True)
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        victim.stdout.close()
    assert isolated(still_works, server.port)


def test_half_a_request_and_then_nothing(blank_server):
    links = []
    for _ in range(20):
        link = socket.create_connection(("127.0.0.1", blank_server.port), timeout=60)
        link.sendall(msgpack.packb([0, 1, "get_map_data", [[False]]])[:-2])
        links.append(link)
    assert_alive(blank_server.port)
    for link in links:
        link.close()


def start_command(*options):
    return subprocess.Popen(
        [sys.executable, "-m", "carla_bridge.cli", "simulator", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stops_cleanly(number, repository, monkeypatch):
    monkeypatch.chdir(repository)
    process = start_command("--port", "0", "--seed", "3")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listening on 127.0.0.1:" in line
    assert_alive(int(line.split(":")[1].split(",")[0]))
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.strip() == "Simulator stopped."
    assert not err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stops_cleanly_while_it_starts(number, repository, monkeypatch):
    """As soon as there is something to leave behind: the processes that draw."""
    monkeypatch.chdir(repository)
    process = start_command("--port", "0")
    deadline = time.monotonic() + 60
    while not (painters := psutil.Process(process.pid).children()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.strip() == "Simulator stopped."
    assert not err
    assert psutil.wait_procs(painters, timeout=60)[1] == [], "nobody is left behind"


def test_a_port_in_use_is_one_sentence(repository, monkeypatch):
    monkeypatch.chdir(repository)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start_command("--port", str(port - 1))
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith(f"Error: cannot listen on 127.0.0.1:{port - 1}")
    assert len(err.strip().splitlines()) == 1
    assert "--port" in err


@pytest.mark.parametrize("host", ["nonsense.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_one_sentence(host, repository, monkeypatch):
    monkeypatch.chdir(repository)
    process = start_command("--host", host, "--port", "0")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith(f"Error: cannot listen on {host}:0")
    assert len(err.strip().splitlines()) == 1
    assert "--host" in err
    assert "--port" not in err
