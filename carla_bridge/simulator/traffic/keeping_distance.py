"""How drivers keep clear of what is on their paths.

A path is a row of samples, everything that could block one is a row of discs, and for every close pair of driver and
disc the nearest sample says how far along the path and how far beside it the disc is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors.physics import FULL_BRAKE
from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.traffic.driver_columns import Discs, Motion, RoadUsers, VehicleTraits
from carla_bridge.simulator.traffic.route_table import SAMPLES

SPACING = 2.0
"""Metres between the samples of a path."""
SIDE_MARGIN = 0.35
"""Metres at the vehicle's sides that should stay free."""
BESIDE = SPACING + 0.5
"""Metres along the path within which a disc belongs to its nearest sample."""
COMFORT_BRAKE = 2.2
"""Deceleration in m/s² that drivers plan with."""
HEADWAY = 1.1
EMERGENCY_BRAKE = -FULL_BRAKE


class Paths(NamedTuple):
    """The road ahead of each driver, (n, samples) each."""

    x: Floats
    y: Floats
    yaw: Floats
    distance: Floats
    """From the vehicle."""


def close_pairs(motion: Motion, discs: Discs, foreign: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n, discs): which discs are close enough to matter to each driver.

    `motion` is that of the drivers' vehicles; `foreign` says which discs belong to other vehicles or to walkers.
    """
    reach = 14.0 + 2.2 * motion.speed + motion.speed**2 / (2 * COMFORT_BRAKE)
    squared, dy = discs.x - motion.x[:, None], discs.y - motion.y[:, None]
    squared *= squared
    dy *= dy
    squared += dy
    close: NDArray[np.bool_] = squared < np.minimum(reach, SPACING * SAMPLES)[:, None] ** 2
    close &= foreign
    return close


def keep_distance(
    close: NDArray[np.bool_],
    traits: VehicleTraits,
    speeds: Floats,
    gaps: Floats,
    paths: Paths,
    road_users: RoadUsers,
    discs: Discs,
    acceleration: Floats,
) -> None:
    """Lower the accelerations so that no driver hits what is on its path."""
    who, what = divmod(np.flatnonzero(close), close.shape[1])
    if not len(who):
        return
    dx = discs.x[what, None] - paths.x[who]
    dy = discs.y[what, None] - paths.y[who]
    nearest = (dx * dx + dy * dy).argmin(axis=1)
    row = np.arange(len(who))
    yaw = paths.yaw[who, nearest]
    c, s = np.cos(yaw), np.sin(yaw)
    dx, dy = dx[row, nearest], dy[row, nearest]
    along, aside = dx * c + dy * s, np.abs(-dx * s + dy * c)
    distance = paths.distance[who, nearest] + along
    radius = road_users.radius[what]
    blocking = (aside < traits.half_width[who] + radius + SIDE_MARGIN) & (distance > 0.0)
    blocking &= np.abs(along) < BESIDE
    room = (distance - traits.half_length[who] - radius)[blocking]
    who, what = who[blocking], what[blocking]
    theirs = (discs.vx[what] * c[blocking] + discs.vy[what] * s[blocking]).clip(min=0.0)
    np.minimum.at(acceleration, who, _follow(room, speeds[who], theirs, gaps[who]))


def _follow(room: Floats, speed: Floats, theirs: Floats, gap: Floats) -> Floats:
    """The intelligent driver model's interaction term."""
    dynamic = speed * HEADWAY + speed * (speed - theirs) / (2 * np.sqrt(2.0 * COMFORT_BRAKE))
    needed = gap + np.maximum(0.0, dynamic)
    free = np.maximum(room, 0.1)
    result = 2.0 * (1.0 - (needed / free) ** 2)
    stopping = speed**2 / (2 * np.maximum(room - 0.8, 0.1))
    result = np.where((theirs < 0.5) & (stopping > 0.7 * FULL_BRAKE), EMERGENCY_BRAKE, result)
    return np.where(room < 0.6, EMERGENCY_BRAKE, np.maximum(result, EMERGENCY_BRAKE))
