"""Stream messages: the header that all share, and the data of small sensors."""

import struct
from enum import IntEnum

import msgpack

from carla_bridge.simulator.actors.actor import Actor, Sensor
from carla_bridge.simulator.actors.posing import in_range
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.world import Collision, World

_HEADER = struct.Struct("<QQd6f")


class SensorType(IntEnum):
    """Ids of the streams' contents in the 0.9.16 wheel."""

    COLLISION = 0
    DEPTH = 1
    GNSS = 4
    IMU = 5
    RGB = 13
    SEMANTIC = 14
    INSTANCE = 15
    WORLD_STATE = 17


def framed(*parts: bytes) -> bytes:
    """One message, preceded by its length."""
    body = b"".join(parts)
    return struct.pack("<I", len(body)) + body


def header(kind: SensorType, frame: int, elapsed: float, pose: Pose) -> bytes:
    """The 48 bytes before every payload."""
    return _HEADER.pack(kind, frame, elapsed, *in_range(pose))


def token(stream: int, port: int) -> bytes:
    """Where to subscribe; the client uses the host it already talks to."""
    return struct.pack("<IHBB16x", stream, port, 1, 0)


def description(actor: Actor) -> list[object]:
    """ActorDescription on the wire."""
    return [0, actor.blueprint, [list(attribute) for attribute in actor.attributes]]


def actor_message(actor: Actor, stream_port: int) -> list[object]:
    """Actor on the wire; a stream token makes it a sensor in the client."""
    return [
        actor.id,
        0 if actor.parent is None else actor.parent.id,
        description(actor),
        actor.box,
        bytes([actor.tag]),
        token(actor.stream, stream_port) if actor.stream else b"",
    ]


def small_sensor(world: World, sensor: Sensor, kind: SensorType, value: object) -> bytes:
    """GNSS, IMU and collision data: msgpack after the header."""
    return framed(header(kind, world.frame, world.elapsed, sensor.pose), msgpack.packb(value))


def collision_value(hit: Collision, stream_port: int) -> list[object]:
    return [actor_message(hit.actor, stream_port), actor_message(hit.other, stream_port), list(hit.impulse)]
