"""The traffic manager's own RPC endpoint. Each public method serves the call of its name.

The client believes that another process runs the traffic manager and only forwards its calls, so that no client
opens a port and the traffic moves with the world. Its protocol has neither metadata nor wrapped results.
"""

import logging
from collections.abc import Sequence
from math import atan2, hypot
from typing import Any

import numpy as np

from carla_bridge.simulator.actors.actor import Vehicle
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol import wire
from carla_bridge.simulator.protocol.dispatch import method_table
from carla_bridge.simulator.protocol.rpc import Caller
from carla_bridge.simulator.town.road_network import Lane
from carla_bridge.simulator.traffic.autopilots import Traffic
from carla_bridge.simulator.traffic.driver import DriverSettings
from carla_bridge.simulator.world import World

TURNS = {1: "Left", 2: "Right", 3: "Straight"}
"""CARLA's RoadOption numbers of the turns that a route may contain."""
CLOSE = 20.0
"""Metres between places of a path up to which they define the direction of travel."""
ON_WAY = 1.5
"""Metres from a lane's centre within which a place counts as on it."""

log = logging.getLogger(__name__)


class TrafficManagerEndpoint:
    """Answers calls; an error reaches the client as a failed call of that name."""

    def __init__(self, world: World) -> None:
        self._methods = method_table(TrafficManagerMethods(world))

    async def __call__(self, caller: Caller, name: str, arguments: list[Any]) -> object:
        method = self._methods.get(name)
        if method is None:
            refusal = RefusedError(f"not served: {name}")
            log.warning("traffic manager: %s", refusal)
            raise refusal
        return await method.call(caller, arguments)


class TrafficManagerMethods:
    """What clients can ask of the traffic."""

    def __init__(self, world: World) -> None:
        self._world = world

    def health_check_remote_TM(self) -> None:  # noqa: N802 - CARLA's name
        """Answers, which is all that the client checks."""

    def register_vehicle(self, vehicles: Any) -> None:
        for vehicle in wire.items(vehicles, "vehicles"):
            self._traffic.register(self._vehicle(vehicle))

    def unregister_vehicle(self, vehicles: Any) -> None:
        for vehicle in wire.items(vehicles, "vehicles"):
            number = _id(vehicle)
            if number in self._world.actors:
                self._traffic.unregister(self._world.vehicle(number))

    def set_percentage_speed_difference(self, vehicle: Any, percentage: Any) -> None:
        """Replaces a desired speed, as with CARLA."""
        settings, difference = self._settings(vehicle), wire.number(percentage, "percentage")
        settings.speed_difference, settings.desired_speed = difference, None

    def set_global_percentage_speed_difference(self, percentage: Any) -> None:
        self._traffic.settings.speed_difference = wire.number(percentage, "percentage")

    def set_desired_speed(self, vehicle: Any, speed: Any) -> None:
        """Replaces a percentage of the limit, as with CARLA."""
        settings, desired = self._settings(vehicle), max(0.0, wire.number(speed, "speed"))
        settings.speed_difference, settings.desired_speed = None, desired

    def set_lane_offset(self, vehicle: Any, offset: Any) -> None:
        self._settings(vehicle).lane_offset = wire.number(offset, "offset")

    def set_global_lane_offset(self, offset: Any) -> None:
        self._traffic.settings.lane_offset = wire.number(offset, "offset")

    def set_distance_to_leading_vehicle(self, vehicle: Any, distance: Any) -> None:
        self._settings(vehicle).distance = wire.number(distance, "distance")

    def set_global_distance_to_leading_vehicle(self, distance: Any) -> None:
        self._traffic.settings.distance = wire.number(distance, "distance")

    def set_percentage_running_light(self, vehicle: Any, percentage: Any) -> None:
        self._settings(vehicle).ignore_lights = wire.number(percentage, "percentage")

    def set_percentage_running_sign(self, vehicle: Any, percentage: Any) -> None:
        """No sign on this map asks drivers to stop."""
        self._settings(vehicle)
        wire.number(percentage, "percentage")

    def set_percentage_ignore_vehicles(self, vehicle: Any, percentage: Any) -> None:
        self._settings(vehicle).ignore_vehicles = wire.number(percentage, "percentage")

    def set_percentage_ignore_walkers(self, vehicle: Any, percentage: Any) -> None:
        self._settings(vehicle).ignore_walkers = wire.number(percentage, "percentage")

    def set_collision_detection(self, vehicle: Any, other: Any, detect: Any) -> None:
        avoided = self._settings(vehicle).not_avoided
        if wire.flag(detect, "detect"):
            avoided.discard(_id(other))
        else:
            avoided.add(_id(other))

    def set_auto_lane_change(self, vehicle: Any, enabled: Any) -> None:
        self._settings(vehicle).changes_lanes = wire.flag(enabled, "enabled")

    def set_force_lane_change(self, vehicle: Any, left: Any) -> None:
        """CARLA sends False for left and True for right."""
        self._settings(vehicle).forced_change = not wire.flag(left, "direction")

    def keep_slow_lane_rule_percentage(self, vehicle: Any, percentage: Any) -> None:
        self._settings(vehicle).keeps_right = wire.number(percentage, "percentage")

    def random_left_lanechange_percentage(self, vehicle: Any, percentage: Any) -> None:
        self._settings(vehicle).random_left = wire.number(percentage, "percentage")

    def random_right_lanechange_percentage(self, vehicle: Any, percentage: Any) -> None:
        self._settings(vehicle).random_right = wire.number(percentage, "percentage")

    def update_vehicle_lights(self, vehicle: Any, enabled: Any) -> None:
        self._settings(vehicle).switches_lights = wire.flag(enabled, "enabled")

    def set_path(self, vehicle: Any, path: Any, empty_buffer: Any) -> None:
        """Drive along these places, then wander on."""
        wire.flag(empty_buffer, "empty_buffer")
        self._follow(vehicle, self._lanes(path))

    def update_custom_path(self, number: Any, path: Any) -> None:
        self._follow([number], self._lanes(path))

    def remove_custom_path(self, number: Any, remove: Any) -> None:
        if wire.flag(remove, "remove"):
            self._follow([number], [])

    def set_imported_route(self, vehicle: Any, route: Any, empty_buffer: Any) -> None:
        """Turn left, right or go straight on at the next junctions, then wander on."""
        wire.flag(empty_buffer, "empty_buffer")
        self._take_turns(vehicle, _turns(route))

    def update_imported_route(self, number: Any, route: Any) -> None:
        self._take_turns([number], _turns(route))

    def remove_imported_route(self, number: Any, remove: Any) -> None:
        if wire.flag(remove, "remove"):
            self._take_turns([number], [])

    def set_random_device_seed(self, seed: Any) -> None:
        self._traffic.reseed(wire.whole(seed, "seed", 0, 2**64 - 1))

    def set_synchronous_mode(self, mode: Any) -> None:
        """The traffic always moves with the world."""
        wire.flag(mode, "mode")

    def set_synchronous_mode_timeout_in_milisecond(self, milliseconds: Any) -> None:
        """Nothing waits, so nothing times out."""
        wire.number(milliseconds, "time")

    def synchronous_tick(self) -> bool:
        return True

    def set_hybrid_physics_mode(self, enabled: Any) -> None:
        """All vehicles have the same simple physics, near or far."""
        wire.flag(enabled, "enabled")

    def set_hybrid_physics_radius(self, radius: Any) -> None:
        """See `set_hybrid_physics_mode`."""
        wire.number(radius, "radius")

    def set_respawn_dormant_vehicles(self, enabled: Any) -> None:
        """No vehicle is dormant: only CARLA's large maps let them sleep."""
        wire.flag(enabled, "enabled")

    def reset_all_traffic_lights(self) -> None:
        for group in dict.fromkeys(self._world.signal_groups.values()):
            group.reset()

    def shut_down(self) -> None:
        """The client drops its handle; the traffic drives on."""

    @property
    def _traffic(self) -> Traffic:
        return self._world.traffic

    def _vehicle(self, message: Any) -> Vehicle:
        return self._world.vehicle(_id(message))

    def _settings(self, message: Any) -> DriverSettings:
        return self._traffic.settings_of(self._vehicle(message))

    def _follow(self, message: Any, path: list[Lane]) -> None:
        self._settings(message).path = path
        driver = self._traffic.drivers.get(_id(message))
        if driver is not None:
            driver.follow(path)

    def _take_turns(self, message: Any, turns: list[str]) -> None:
        self._settings(message).turns = turns
        driver = self._traffic.drivers.get(_id(message))
        if driver is not None:
            driver.take_turns(turns)

    def _lanes(self, path: Any) -> list[Lane]:
        """The lanes of a path. Ways through junctions overlap, so they follow from the roads before and after."""
        places = [wire.vector(place, "location") for place in wire.items(path, "path")]
        lanes: list[Lane] = []
        for number, (x, y, _) in enumerate(places):
            yaw = _direction(places[max(number - 1, 0) : number + 2])
            lane, _, _ = self._world.network.nearest(x, y, yaw)
            if lane.junction is None and (not lanes or lanes[-1] is not lane):
                lanes.append(lane)
        if places and lane.junction is not None:
            lanes.append(_last_way(lanes, lane, x, y))
        return lanes


def _last_way(lanes: list[Lane], nearest: Lane, x: float, y: float) -> Lane:
    """The last way of a path that ends in a junction: from its last road, or else the nearest to its end."""

    def gap(way: Lane) -> float:
        return float(np.hypot(way.samples[:, 0] - x, way.samples[:, 1] - y).min())

    onward = min(lanes[-1].successors, key=gap) if lanes else nearest
    return onward if gap(onward) < ON_WAY else nearest


def _direction(places: Sequence[tuple[float, float, float]]) -> float | None:
    """Yaw in radians from the first to the last of neighbouring places; None if they are too far apart to tell."""
    (x, y, _), (to_x, to_y, _) = places[0], places[-1]
    apart = hypot(to_x - x, to_y - y)
    return atan2(to_y - y, to_x - x) if 0.0 < apart <= 2 * CLOSE else None


def _id(actor: Any) -> int:
    return wire.whole(wire.items(actor, "actor", 1)[0], "actor id")


def _turns(route: Any) -> list[str]:
    """The turns of a route, which is one byte per junction."""
    if not isinstance(route, bytes):
        raise RefusedError("a route must be bytes, one for each junction")
    return [TURNS[option] for option in route if option in TURNS]
