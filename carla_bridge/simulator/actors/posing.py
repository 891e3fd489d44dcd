"""Poses of attached things, with CARLA's left-handed rotations."""

from math import asin, atan2, cos, degrees, radians, sin

import numpy as np

from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.path import Floats


def rotation(pose: Pose) -> Floats:
    """The 3 x 3 matrix whose columns are the forward, right and up directions of a pose."""
    cp, sp = cos(radians(pose.pitch)), sin(radians(pose.pitch))
    cy, sy = cos(radians(pose.yaw)), sin(radians(pose.yaw))
    cr, sr = cos(radians(pose.roll)), sin(radians(pose.roll))
    return np.array(
        [
            [cp * cy, cy * sp * sr - sy * cr, -cy * sp * cr - sy * sr],
            [cp * sy, sy * sp * sr + cy * cr, -sy * sp * cr + cy * sr],
            [sp, -cp * sr, cp * cr],
        ]
    )


def attached(parent: Pose, relative: Pose) -> Pose:
    """Where something mounted at `relative` on `parent` is in the world."""
    if not (parent.pitch or parent.roll):
        c, s = cos(radians(parent.yaw)), sin(radians(parent.yaw))
        return Pose(
            parent.x + c * relative.x - s * relative.y,
            parent.y + s * relative.x + c * relative.y,
            parent.z + relative.z,
            relative.pitch,
            wrap(parent.yaw + relative.yaw),
            relative.roll,
        )
    turned = rotation(parent)
    x, y, z = turned @ (relative.x, relative.y, relative.z)
    both = turned @ rotation(relative)
    return Pose(
        float(parent.x + x),
        float(parent.y + y),
        float(parent.z + z),
        degrees(asin(max(-1.0, min(1.0, both[2, 0])))),
        degrees(atan2(both[1, 0], both[0, 0])),
        degrees(atan2(-both[2, 1], both[2, 2])),
    )


def in_range(pose: Pose) -> Pose:
    """The pose as clients see it, with yaw and roll in [-180, 180), where the same direction has one value."""
    if -180.0 <= pose.yaw < 180.0 and -180.0 <= pose.roll < 180.0:
        return pose
    return pose._replace(yaw=wrap(pose.yaw), roll=wrap(pose.roll))


def wrap(angle: float) -> float:
    """Degrees in [-180, 180)."""
    return (angle + 180.0) % 360.0 - 180.0
