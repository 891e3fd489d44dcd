"""The stream over real sockets, fed by a counting world.

The world is a stand-in for the fleet's process, so that the stream's promises are tested without a simulator; the tests
of `serve` run the whole chain.
"""

import threading
from contextlib import contextmanager

import numpy as np

from carla_bridge.config.parts import StreamSettings, VehicleSettings
from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError
from carla_bridge.frames import Annotations, Box, Frame
from carla_bridge.packets import Packet, encode_frame
from carla_bridge.stream.client import StreamClient
from carla_bridge.stream.identity import Token
from carla_bridge.stream.server import StreamServer

NAMES = ("vehicle_1", "vehicle_2")
TOKEN = Token("a long shared secret")


def frame_at(vehicle, second):
    image = np.full((32, 48, 3), second % 251, np.uint8)
    boxes = [Box(second % 6, 1, 2, 3, 4, truncated=second % 2 == 0, pixels=7, object_id=second)]
    return Frame(image, second, float(second), Annotations.of(boxes), vehicle, "city")


class CountingWorld:
    """One frame per vehicle and second, as far as it is asked to go."""

    def __init__(self, window=10.0, names=NAMES):
        stream = StreamSettings(port=0, window_seconds=window)
        self.config = CarlaSettings(stream=stream, vehicles=tuple(VehicleSettings(name=name) for name in names))
        self.map_name = "Nowhere"
        self.time = 0.0
        self.fails_at = None

    def begin(self, start):
        self.time = start

    def packets(self, until):
        while self.time < until:
            if self.fails_at is not None and self.time >= self.fails_at:
                raise BridgeError("the plan was wrong after all")
            for vehicle in self.config.vehicles:
                packed = encode_frame(frame_at(vehicle.name, int(self.time)), "raw", 90)
                yield Packet(vehicle.name, self.time, packed)
            self.time += 1

    def watch(self):
        pass

    def interrupt(self):
        pass


def server_of(world, identity=TOKEN, port=0, host="127.0.0.1"):
    stream = world.config.stream.model_copy(update={"host": host, "port": port})
    world.config = world.config.model_copy(update={"stream": stream})
    return StreamServer(world, identity)


@contextmanager
def serving(world, identity=TOKEN, port=0):
    server = server_of(world, identity, port)
    failures = []

    def run():
        try:
            server.run()
        except BridgeError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


def client_of(server, vehicle, identity=TOKEN, **options):
    host, port = server.address
    return StreamClient(host, port, vehicle, identity, **{"patience": 20.0, **options})


def seconds(frames):
    return [frame.timestamp for frame in frames]
