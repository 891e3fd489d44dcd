"""What lines the city's streets: parked cars, lamps, trees, traffic lights, signs and street furniture."""

from math import cos, degrees, sin

import numpy as np

from carla_bridge.simulator.catalogue.kinds import ObjectKind
from carla_bridge.simulator.town.path import Path
from carla_bridge.simulator.town.road_network import LaneType, Road, RoadKind, RoadNetwork
from carla_bridge.simulator.town.road_signals import Signal
from carla_bridge.simulator.town.scenery import Scenery

GREY = (92, 96, 98)


def line_streets(network: RoadNetwork, scenery: Scenery) -> None:
    """Furnish both sides of every street, avenue and ramp."""
    for road in network.roads.values():
        if road.kind in (RoadKind.STREET, RoadKind.AVENUE):
            for along in (True, False):
                _street_side(road, road.reference if along else road.reference.reversed(), scenery)
        elif road.kind is RoadKind.RAMP:
            _ramp(road, scenery)


def put_up_lights(lights: tuple[Signal, ...], scenery: Scenery) -> None:
    """A pole with an arm over the lane; one head at the arm's end and one at the pole."""
    for light in lights:
        yaw = np.radians(light.facing)
        scenery.add(
            ObjectKind.TRAFFIC_LIGHT_POLE,
            light.x,
            light.y,
            (0.2, light.reach, 5.6),
            yaw=light.facing,
            colour=GREY,
        )
        for away, height in ((light.reach, 4.6), (0.0, 2.5)):
            scenery.add(
                ObjectKind.TRAFFIC_LIGHT,
                light.x - away * sin(yaw) + 0.3 * cos(yaw),
                light.y + away * cos(yaw) + 0.3 * sin(yaw),
                (0.3, 0.36, 1.0),
                yaw=light.facing,
                z=height,
                colour=(30, 32, 34),
                object_id=light.object_id,
            )


def put_up_signs(signs: tuple[Signal, ...], scenery: Scenery) -> None:
    """Speed limits on their poles."""
    for sign in signs:
        yaw = np.radians(sign.facing)
        large = 1.2 if (sign.speed or 0) > 80 else 0.75
        scenery.add(ObjectKind.POLE, sign.x, sign.y, (0.08, 0.08, 2.2 + large), colour=GREY)
        scenery.add(
            ObjectKind.SPEED_SIGN,
            sign.x + 0.08 * cos(yaw),
            sign.y + 0.08 * sin(yaw),
            (0.04, large, large),
            yaw=sign.facing,
            z=2.2,
            colour=(230, 230, 230),
            variant=sign.speed or 0,
            object_id=sign.object_id,
        )


def _street_side(road: Road, path: Path, scenery: Scenery) -> None:
    """Everything on the right of `path`, which runs in the direction of the traffic on that side."""
    driving = road.half_width(LaneType.DRIVING)
    kerb = driving + road.half_width(LaneType.PARKING)
    s = 7.0
    while s < path.length - 9.0:
        if scenery.random.random() < 0.5:
            x, y, yaw = _place(path, s + 2.7, driving + 1.15)
            scenery.parked_car(x, y, degrees(yaw))
        s += scenery.between(5.9, 7.2)
    planted = scenery.random.random() < 0.6
    for number, s in enumerate(np.arange(6.0, path.length - 5.0, 9.5)):
        x, y, yaw = _place(path, s, kerb + 0.7)
        if number % 3 == 1:
            scenery.add(ObjectKind.LAMP, x, y, (0.16, 2.2, 7.5), yaw=degrees(yaw) + 180, colour=GREY)
        elif planted:
            scenery.tree(x, y, 0.72)
    _furniture(path, kerb, scenery)
    if road.kind is RoadKind.AVENUE and scenery.random.random() < 0.6:
        x, y, yaw = _place(path, path.length * 0.62, kerb + 2.4)
        size = (1.4, 4.2, 2.6)
        scenery.add(ObjectKind.BUS_SHELTER, x, y, size, yaw=degrees(yaw) - 90, colour=(90, 110, 120))


def _furniture(path: Path, kerb: float, scenery: Scenery) -> None:
    pieces = (
        (ObjectKind.BIN, (0.5, 0.5, 1.0), (60, 74, 62)),
        (ObjectKind.HYDRANT, (0.35, 0.35, 0.8), (170, 40, 30)),
        (ObjectKind.BENCH, (0.6, 1.6, 0.8), (110, 82, 58)),
        (ObjectKind.POLE, (0.14, 0.14, 1.0), (60, 62, 64)),
    )
    for s in np.arange(10.0, path.length - 8.0, 17.0):
        kind, size, colour = pieces[scenery.whole(len(pieces))]
        x, y, yaw = _place(path, s + scenery.between(-2, 2), kerb + 2.6)
        scenery.add(kind, x, y, size, yaw=degrees(yaw) - 90, colour=colour)


def _ramp(road: Road, scenery: Scenery) -> None:
    for along in (True, False):
        path = road.reference if along else road.reference.reversed()
        edge = road.half_width(LaneType.DRIVING, LaneType.SHOULDER)
        for s in np.arange(22.0, path.length - 4.0, 4.0):
            x, y, yaw = _place(path, s, edge + 0.5)
            scenery.add(ObjectKind.GUARD_RAIL, x, y, (4.0, 0.3, 0.8), yaw=degrees(yaw), colour=(150, 154, 158))
        for s in np.arange(18.0, path.length, 30.0):
            x, y, yaw = _place(path, s, edge + 1.2)
            scenery.add(ObjectKind.LAMP, x, y, (0.18, 2.6, 9.0), yaw=degrees(yaw) + 180, colour=GREY)
        for s in np.arange(12.0, path.length, 7.0):
            x, y, _ = _place(path, s, edge + scenery.between(6, 16))
            scenery.tree(x, y, 1.0, conifer=scenery.random.random() < 0.5)
        to_highway = along == (road.reference.x > 0)
        x, y, yaw = _place(path, 30.0, edge + 1.6)
        size = (0.1, 3.6, 2.0)
        scenery.add(
            ObjectKind.DIRECTION_SIGN,
            x,
            y,
            size,
            z=2.0,
            yaw=degrees(yaw) + 180,
            variant=0 if to_highway else 1,
            object_id=scenery.next_id,
        )
        scenery.add(ObjectKind.POLE, x + 0.15 * cos(yaw), y + 0.15 * sin(yaw), (0.16, 0.16, 4.0), colour=GREY)
        scenery.next_id += 1


def _place(path: Path, s: float, right: float) -> tuple[float, float, float]:
    x, y, yaw, _ = path.sample(np.array([float(s)]))[0]
    return float(x - right * sin(yaw)), float(y + right * cos(yaw)), float(yaw)
