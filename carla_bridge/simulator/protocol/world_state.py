"""The message with the state of all actors that clients receive once per tick."""

import struct
import time

from carla_bridge.simulator.actors.actor import Actor, TrafficLight, TrafficSign, Vehicle, Walker
from carla_bridge.simulator.actors.actor_index import ActorIndex
from carla_bridge.simulator.actors.posing import in_range
from carla_bridge.simulator.protocol.messages import SensorType, header
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.world import World

MAP_CHANGED = 1
_EPISODE = struct.Struct("<Qdf3iI")
_BODY = "<IB15f"
"""Id, whether active, pose, velocity, angular velocity, acceleration: the beginning of every actor's row."""
_PLAIN = struct.Struct(_BODY)
_VEHICLE = struct.Struct(_BODY + "fffBBBifBBIB")
_WALKER = struct.Struct(_BODY + "4fB")
_SIGN = struct.Struct(_BODY + "32s")
_LIGHT_CLOCK = struct.Struct("<4fIBB")
_ROW = _PLAIN.size + 54
_UNKNOWN_LIGHT = 2
"""The state for a vehicle that is at no light: green."""
_START = 4 + len(header(SensorType.WORLD_STATE, 0, 0.0, Pose(0.0, 0.0, 0.0))) + _EPISODE.size


class WorldStateWriter:
    """Writes the states of one world; from tick to tick only the parts of rows that can change are rewritten."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._actor_index: ActorIndex | None = None

    def message(self, map_changed: bool) -> bytes:
        """All actors at the present frame, preceded by the length."""
        world = self._world
        if world.actor_index is not self._actor_index:
            self._actor_index = world.actor_index
            self._lay_out()
        self._write_start(map_changed)
        buffer = self._buffer
        for place, vehicle in self._vehicles:
            _write_vehicle(buffer, place, vehicle)
        for place, walker in self._walkers:
            walk = walker.control
            _WALKER.pack_into(buffer, place, *_body(walker), *walk.direction, walk.speed, walk.jump)
        for place, light in self._lights:
            times = (light.green_time, light.yellow_time, light.red_time, light.elapsed)
            _LIGHT_CLOCK.pack_into(buffer, place, *times, light.pole, light.frozen, light.state)
        for place, actor in self._others:
            _PLAIN.pack_into(buffer, place, *_body(actor))
        return bytes(buffer)

    def _write_start(self, map_changed: bool) -> None:
        world = self._world
        start = header(SensorType.WORLD_STATE, world.frame, world.elapsed, Pose(0.0, 0.0, 0.0))
        changes = MAP_CHANGED if map_changed else 0
        episode = _EPISODE.pack(world.episode, time.monotonic(), world.settings.step, 0, 0, 0, changes)
        self._buffer[:_START] = struct.pack("<I", len(self._buffer) - 4) + start + episode

    def _lay_out(self) -> None:
        """Assign the rows. Signs and lights do not move, so most of their rows is written here."""
        actors = self._world.actors.values()
        self._buffer = bytearray(_START + _ROW * len(actors))
        self._vehicles: list[tuple[int, Vehicle]] = []
        self._walkers: list[tuple[int, Walker]] = []
        self._lights: list[tuple[int, TrafficLight]] = []
        self._others: list[tuple[int, Actor]] = []
        for place, actor in zip(range(_START, len(self._buffer), _ROW), actors, strict=True):
            if isinstance(actor, Vehicle):
                self._vehicles.append((place, actor))
            elif isinstance(actor, Walker):
                self._walkers.append((place, actor))
            elif isinstance(actor, TrafficLight | TrafficSign):
                _SIGN.pack_into(self._buffer, place, *_body(actor), actor.signal.id.encode())
                if isinstance(actor, TrafficLight):
                    self._lights.append((place + _SIGN.size, actor))
            else:
                self._others.append((place, actor))


def _body(actor: Actor) -> tuple[float, ...]:
    return (actor.id, 1, *in_range(actor.pose), *actor.velocity, *actor.angular_velocity, *actor.acceleration)


def _write_vehicle(buffer: bytearray, place: int, vehicle: Vehicle) -> None:
    control, light = vehicle.control, vehicle.waits_at
    _VEHICLE.pack_into(
        buffer,
        place,
        *_body(vehicle),
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
