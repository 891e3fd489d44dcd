"""Stream messages: the header that all share, the world state, and the small sensors."""

import struct
import time
from enum import IntEnum

import msgpack

from carla_bridge.simulator.actors import (
    Actor,
    Sensor,
    TrafficLight,
    TrafficSign,
    Vehicle,
    Walker,
)
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.world import Collision, World

MAP_CHANGED = 1
_HEADER = struct.Struct("<QQd6f")
_EPISODE = struct.Struct("<Qdf3iI")
_STATE = struct.Struct("<IB3f3f3f3f3f54s")
_VEHICLE = struct.Struct("<fffBBBifBBIB")
_WALKER = struct.Struct("<4fB")
_LIGHT = struct.Struct("<32s4fIBB")
_UNKNOWN_LIGHT = 2
"""What a vehicle shows that no light concerns: green."""


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
    """One message with its length in front."""
    body = b"".join(parts)
    return struct.pack("<I", len(body)) + body


def header(kind: SensorType, frame: int, elapsed: float, pose: Pose) -> bytes:
    """The 48 bytes before every payload."""
    return _HEADER.pack(kind, frame, elapsed, pose.x, pose.y, pose.z, pose.pitch, pose.yaw, pose.roll)


def world_state(world: World, map_changed: bool) -> bytes:
    """All actors at the present frame."""
    parts = [
        header(SensorType.WORLD_STATE, world.frame, world.elapsed, Pose(0.0, 0.0, 0.0)),
        _EPISODE.pack(
            world.episode,
            time.monotonic(),
            world.settings.step,
            0,
            0,
            0,
            MAP_CHANGED if map_changed else 0,
        ),
    ]
    parts += [_actor_state(actor) for actor in world.actors.values()]
    return framed(*parts)


def _actor_state(actor: Actor) -> bytes:
    pose = actor.pose
    if isinstance(actor, Vehicle):
        special = _vehicle_state(actor)
    elif isinstance(actor, Walker):
        walk = actor.control
        special = _WALKER.pack(*walk.direction, walk.speed, walk.jump)
    elif isinstance(actor, TrafficLight):
        special = _LIGHT.pack(
            actor.signal.id.encode(),
            actor.green_time,
            actor.yellow_time,
            actor.red_time,
            actor.elapsed,
            actor.pole,
            actor.frozen,
            actor.state,
        )
    elif isinstance(actor, TrafficSign):
        special = actor.signal.id.encode()
    else:
        special = b""
    return _STATE.pack(
        actor.id,
        1,
        pose.x,
        pose.y,
        pose.z,
        pose.pitch,
        pose.yaw,
        pose.roll,
        *actor.velocity,
        *actor.angular_velocity,
        *actor.acceleration,
        special,
    )


def _vehicle_state(vehicle: Vehicle) -> bytes:
    control, light = vehicle.control, vehicle.waits_at
    return _VEHICLE.pack(
        control.throttle,
        control.steer,
        control.brake,
        control.hand_brake,
        control.reverse,
        control.manual_gear_shift,
        control.gear,
        vehicle.speed_limit,
        _UNKNOWN_LIGHT if light is None else light.state,
        light is not None,
        0 if light is None else light.id,
        0,
    )


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
