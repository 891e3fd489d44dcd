"""When drivers change lane: to follow their route, to overtake, or because a client asked for it."""

from collections.abc import Sequence, Set
from math import sqrt

import numpy as np

from carla_bridge.simulator.actors.actor import Vehicle
from carla_bridge.simulator.town.road_network import LANE_SPACING, Lane
from carla_bridge.simulator.traffic.driver import Driver

EVERY = 0.5
"""Seconds between two decisions of a driver about its lane."""
LAST_CHANCE = 30.0
"""Metres before the end of the lane at which a driver abandons a planned change."""
FAR = 90.0
"""Metres beyond which other vehicles do not matter."""
SEARCHED = 90
"""Samples of a lane, ahead of and behind the vehicle, in which others are searched for."""
IN_LANE = 1.9
"""A vehicle this close to a lane's centre, plus half its width, occupies it."""


class LaneChanges:
    """Decides about lane changes, for a part of the drivers in each tick."""

    def consider(self, drivers: Sequence[Driver], vehicles: Sequence[Vehicle], frame: int, dt: float) -> None:
        period = max(1, round(EVERY / dt))
        for driver in drivers:
            if (frame + driver.number) % period or driver.changing or driver.lane.junction is not None:
                continue
            left_to_go = driver.lane.length - driver.s
            planned = driver.neighbour_wanted()
            if planned is not None and left_to_go < LAST_CHANCE:
                driver.give_up_change()
                continue
            if left_to_go < 40.0 + 3.0 * driver.vehicle.speed and planned is None:
                continue
            target = planned or self._preferred_lane(driver, vehicles)
            if target is None:
                continue
            coming = {other.vehicle for other in drivers if other.changing and other.lane is target}
            if _is_free(driver, target, vehicles, coming):
                driver.settings.forced_change = None
                driver.change_to(target)

    def _preferred_lane(self, driver: Driver, vehicles: Sequence[Vehicle]) -> Lane | None:
        lane, settings = driver.lane, driver.settings
        if settings.forced_change is not None:
            return lane.left if settings.forced_change else lane.right
        if (lane.left is None and lane.right is None) or not settings.changes_lanes or driver.goals:
            return None
        chance = 100.0 * driver.random.random()
        if chance < settings.random_left * EVERY:
            return lane.left
        if chance < settings.random_right * EVERY:
            return lane.right
        if driver.vehicle.speed > 3.0 and _held_up(driver, vehicles):
            return lane.left or lane.right
        back = lane.right is not None and chance < max(1.0, settings.keeps_right) * EVERY
        return lane.right if back else None


def _held_up(driver: Driver, vehicles: Sequence[Vehicle]) -> bool:
    """Is the next vehicle in the same lane clearly slower?"""
    vehicle = driver.vehicle
    wanted = driver.lane.speed_limit / 3.6 * driver.speed_factor
    far = 12.0 + 1.6 * vehicle.speed
    for ahead, aside, other in _around(driver.lane, vehicle, vehicles, far + IN_LANE + LANE_SPACING):
        if 0.0 < ahead < far and aside < IN_LANE:
            return other.speed < wanted - 2.0
    return False


def _is_free(driver: Driver, lane: Lane, vehicles: Sequence[Vehicle], coming: Set[Vehicle]) -> bool:
    """Is there a gap, with time to spare, between the vehicles that are in the other lane or moving into it?"""
    me = driver.vehicle
    for ahead, aside, other in _around(lane, me, vehicles, FAR):
        if aside > IN_LANE + other.extent[1] and other not in coming:
            continue
        clear = abs(ahead) - me.extent[0] - other.extent[0]
        closing = me.speed - other.speed if ahead > 0 else other.speed - me.speed
        if clear < 5.0 + 0.4 * me.speed + 3.0 * max(0.0, closing):
            return False
    return True


def _around(lane: Lane, me: Vehicle, vehicles: Sequence[Vehicle], reach: float) -> list[tuple[float, float, Vehicle]]:
    """(metres ahead along the lane, metres off its centre, vehicle), nearest in front first.

    Includes all within `reach` metres of the vehicle's place on the lane, and possibly some farther away.
    """
    x, y = me.pose[:2]
    dx, dy = lane.samples[:, 0] - x, lane.samples[:, 1] - y
    squared = dx * dx + dy * dy
    mine = int(squared.argmin())
    within = min(reach + sqrt(squared[mine]), FAR)
    others = [v for v in vehicles if abs(v.pose.x - x) < within and abs(v.pose.y - y) < within and v is not me]
    if not others:
        return []
    start = max(0, mine - SEARCHED)
    near = lane.samples[start : mine + SEARCHED]
    places = np.array([v.pose[:2] for v in (me, *others)])
    dx, dy = near[:, 0] - places[:, :1], near[:, 1] - places[:, 1:]
    squared = dx * dx + dy * dy
    index = squared.argmin(axis=1)
    aside = np.sqrt(squared[np.arange(len(places)), index])
    ahead = (index - index[0]) * LANE_SPACING
    found = list(zip(ahead[1:].tolist(), aside[1:].tolist(), others, strict=True))
    return sorted(found, key=lambda row: row[0])
