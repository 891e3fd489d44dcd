"""Finds the parts of a map that a plan names (a city, a highway) by spawn points or by a rule on their lanes.

Speed limits come from the OpenDRIVE description (`road/type/speed`, or the `speed` of a lane), which CARLA's towns and
the embedded map both contain; lane counts are driving lanes next to each other in one direction.
"""

from collections.abc import Mapping
from typing import Literal
from xml.etree import ElementTree

import carla

from carla_bridge.config.parts import RegionRule
from carla_bridge.errors import ConfigError

KMH_PER_UNIT = {"km/h": 1.0, "mph": 1.609344, "m/s": 3.6, "": 3.6}


class RegionMap:
    """The regions of one CARLA map."""

    def __init__(self, carla_map: carla.Map, rules: Mapping[str, RegionRule]) -> None:
        self._map = carla_map
        self._rules = dict(rules)
        self._speeds = speed_limits(carla_map.to_opendrive())
        self.spawn_points: list[carla.Transform] = carla_map.get_spawn_points()
        if not self.spawn_points:
            raise ConfigError(f"the map {carla_map.name} has no spawn points, so no vehicle can drive there")

    def spawn_indices(self, region: str) -> list[int]:
        """The spawn points of a region; a name without a rule means the whole map."""
        everywhere = range(len(self.spawn_points))
        rule = self._rules.get(region)
        if rule is None:
            return list(everywhere)
        if rule.spawn_points is not None:
            beyond = [number for number in rule.spawn_points if number not in everywhere]
            if beyond:
                raise ConfigError(
                    f"carla.regions.{region} names spawn point {beyond[0]}; {self._map.name} has 0 to "
                    f"{len(everywhere) - 1}"
                )
        chosen = everywhere if rule.spawn_points is None else rule.spawn_points
        found = [number for number in chosen if self._holds(rule, self._waypoint(number))]
        if not found:
            raise ConfigError(
                f"carla.regions.{region} fits none of the {len(everywhere)} spawn points of {self._map.name}; "
                f"its lanes have {self._summary()}"
            )
        return found

    def is_outside(self, region: str, location: carla.Location) -> bool:
        """Whether a place is certainly outside a region; never true in a junction or without a rule on lanes."""
        rule = self._rules.get(region)
        if rule is None or not rule.by_lanes:
            return False
        waypoint = self._map.get_waypoint(location)
        return waypoint is not None and not waypoint.is_junction and not self._holds(rule, waypoint)

    def _waypoint(self, number: int) -> carla.Waypoint | None:
        return self._map.get_waypoint(self.spawn_points[number].location)

    def _holds(self, rule: RegionRule, waypoint: carla.Waypoint | None) -> bool:
        if not rule.by_lanes:
            return True
        if waypoint is None or (rule.roads is not None and waypoint.road_id not in rule.roads):
            return False
        if not rule.min_lanes <= lanes_abreast(waypoint) <= rule.max_lanes:
            return False
        if rule.min_speed is None and rule.max_speed is None:
            return True
        speed = self._speeds.get(waypoint.road_id)
        return speed is not None and (rule.min_speed or 0.0) <= speed <= (rule.max_speed or float("inf"))

    def _summary(self) -> str:
        speeds = sorted({round(speed) for speed in self._speeds.values()})
        waypoints = [self._waypoint(number) for number in range(len(self.spawn_points))]
        lanes = sorted({lanes_abreast(waypoint) for waypoint in waypoints if waypoint is not None})
        return f"speed limits {speeds} km/h and {lanes} lanes abreast"


def lanes_abreast(waypoint: carla.Waypoint) -> int:
    """The number of driving lanes in the waypoint's direction, including its own."""
    return 1 + _lanes_towards(waypoint, "left") + _lanes_towards(waypoint, "right")


def _lanes_towards(waypoint: carla.Waypoint, side: Literal["left", "right"]) -> int:
    def neighbour(lane: carla.Waypoint) -> carla.Waypoint | None:
        return lane.get_left_lane() if side == "left" else lane.get_right_lane()

    count, lane = 0, neighbour(waypoint)
    while lane is not None and lane.lane_type == waypoint.lane_type and (lane.lane_id > 0) == (waypoint.lane_id > 0):
        count, lane = count + 1, neighbour(lane)
    return count


def speed_limits(opendrive: str) -> dict[int, float]:
    """The speed limit in km/h by road id, for the roads that have one."""
    limits: dict[int, float] = {}
    for road in ElementTree.fromstring(opendrive).iter("road"):
        stated = [*road.findall("type/speed"), *road.findall("lanes/laneSection/*/lane/speed")]
        speeds = [speed for speed in map(_kmh, stated) if speed is not None]
        if speeds:
            limits[int(road.get("id", "-1"))] = max(speeds)
    return limits


def _kmh(speed: ElementTree.Element) -> float | None:
    try:
        return float(speed.get("max", "")) * KMH_PER_UNIT[speed.get("unit", "")]
    except (ValueError, KeyError):
        return None
