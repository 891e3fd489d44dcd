"""Clients that die, sleep or ask too much: the others never notice."""

import os
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

from tests.support.carla_client import at, blueprint, connect, fresh, listening
from tests.support.raw_rpc import Rpc, assert_alive

pytest_plugins = ("tests.support.simulator_servers",)
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
        for _ in range(125):
            frame = world.tick()
            at(images, frame)
        seconds = time.monotonic() - start
        growth = (process.memory_info().rss - before) / 1e6
    for link in sleepers:
        link.close()
    camera.destroy()
    return seconds, growth


def test_a_subscriber_that_never_reads_costs_neither_time_nor_memory(new_server, isolated):
    server = new_server()
    seconds, growth = isolated(watch_with_a_sleeper, server.port, server.stream_port, server.process.pid)
    assert growth < 80, "125 frames are 240 MB"
    assert seconds < 40


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
