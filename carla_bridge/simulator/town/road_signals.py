"""Positions of traffic lights and speed signs, derived from the roads: one list for map, pictures and actors."""

from dataclasses import dataclass, replace
from math import cos, pi, sin

import numpy as np

from carla_bridge.simulator.catalogue.semantics import FIRST_STATIC_ID
from carla_bridge.simulator.town.road_network import (
    Junction,
    LaneId,
    LaneType,
    Road,
    RoadKind,
    RoadNetwork,
    driving_lanes,
)

STOP_LINE = 6.5
"""Metres from the stop line to the end of the lane: so far back that a bus can turn past waiting vehicles."""
POLE_FROM_KERB = 0.6
POLE_AFTER_LINE = 1.0
"""Metres from a light's pole to the end of the lane."""
TRIGGER_HALF_LENGTH, TRIGGER_HALF_HEIGHT = 1.5, 1.5

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Signal:
    """A traffic light or speed sign at the roadside, facing the traffic it is meant for."""

    id: str
    """OpenDRIVE signal id."""
    object_id: int
    road: int
    s: float
    t: float
    """OpenDRIVE's lateral position: positive to the left of the reference line."""
    along: bool
    """Meant for traffic along the reference line (right-hand lanes), else against it."""
    x: float
    y: float
    facing: float
    """Yaw in degrees in which the sign is seen; against the traffic."""
    lanes: tuple[LaneId, ...]
    reach: float
    """From the pole to the centre of the outermost lane it is meant for."""
    span: float
    """Width of the lanes it is meant for."""
    junction: int | None = None
    """Of a traffic light."""
    speed: int | None = None
    """Of a speed sign, km/h."""


def traffic_lights(network: RoadNetwork) -> tuple[Signal, ...]:
    """A light for every approach of every junction with lights, in a fixed order."""
    found: list[Signal] = []
    for junction in network.junctions.values():
        if junction.has_lights:
            for road_id in junction.arms:
                found.append(_light(network.roads[road_id], junction, len(found)))
    return tuple(found)


def speed_signs(network: RoadNetwork, first_object_id: int) -> tuple[Signal, ...]:
    """Limits where a main road begins, and on every third street."""
    found: list[Signal] = []
    for road in network.roads.values():
        if road.junction is not None or (road.kind is RoadKind.STREET and road.id % 3):
            continue
        for along in (True, False):
            if along or road.left:
                lane_start = 14.0 if road.kind is not RoadKind.HIGHWAY else 60.0
                name = f"speed_{road.id}_{'r' if along else 'l'}"
                sign = _beside(road, along, lane_start, name, first_object_id + len(found))
                found.append(replace(sign, speed=int(road.speed_limit)))
    return tuple(found)


def across(light: Signal) -> float:
    """Yaw of a light's actor in degrees: CARLA's point across the road, to the right of their traffic."""
    return (light.facing - 90.0) % 360.0


def trigger_volume(light: Signal) -> tuple[Vector, Vector]:
    """Centre and half sizes, as the light's actor sees them: over the stop line of all lanes it is meant for.

    The client looks for stop waypoints along the volume's x axis, so that one must lie across the road.
    """
    from_pole = light.span / 2 - abs(light.t)
    centre = (from_pole, STOP_LINE - POLE_AFTER_LINE, TRIGGER_HALF_HEIGHT)
    return centre, (light.span / 2, TRIGGER_HALF_LENGTH, TRIGGER_HALF_HEIGHT)


def _light(road: Road, junction: Junction, number: int) -> Signal:
    along = road.end_junction == junction.id
    to_go = road.reference.length - POLE_AFTER_LINE
    name = f"light_{junction.id}_{road.id}"
    return replace(_beside(road, along, to_go, name, FIRST_STATIC_ID + number), junction=junction.id)


def _beside(road: Road, along: bool, driven: float, name: str, object_id: int) -> Signal:
    """A signal on the right of its traffic, `driven` metres after their lanes began."""
    s = driven if along else road.reference.length - driven
    side = road.right if along else road.left
    kerb = sum(lane.width for lane in side if lane.type is not LaneType.SIDEWALK)
    span = sum(lane.width for lane in side if lane.type is LaneType.DRIVING)
    lateral = (kerb + POLE_FROM_KERB) * (1 if along else -1)
    x, y, yaw, _ = road.reference.sample(np.array([s]))[0]
    return Signal(
        id=name,
        object_id=object_id,
        road=road.id,
        s=s,
        t=-lateral,
        along=along,
        x=float(x - lateral * sin(yaw)),
        y=float(y + lateral * cos(yaw)),
        facing=float((yaw + (pi if along else 0.0)) * 180 / pi % 360),
        lanes=tuple((road.id, number) for number, _, _ in driving_lanes(road) if (number < 0) == along),
        reach=kerb + POLE_FROM_KERB - (span - side[0].width / 2),
        span=span,
    )
