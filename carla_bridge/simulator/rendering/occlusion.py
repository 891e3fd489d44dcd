"""What buildings hide, so that it need not be drawn.

A thing is left out only if it lies wholly behind one building: between the two lines that touch the building's
footprint and the place of the camera, beyond the chord between the corners they touch, and no higher than its walls,
which must rise above the camera. Every ray to such a thing meets the building first, so no pixel changes.

A camera moves little from picture to picture, so its place is a small square of the map, and lines touch a circle
round it: what is hidden from all of the square need not be found out again until the camera has left it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.catalogue.kinds import ObjectKind
from carla_bridge.simulator.scene import StaticObject

Floats = NDArray[np.float64]
_SOLID_SHARE = {
    ObjectKind.BUILDING.value: (1.0, 1.0),
    ObjectKind.SHED.value: (1.0, 0.78),
    ObjectKind.HOUSE.value: (0.9, 0.58),
    ObjectKind.TOWER.value: (0.9, 0.88),
}
"""How much of the box, in plan and in height, is certainly filled."""
_NEAREST = 32
_SQUARE = 4.0
"""Edge of the squares that cameras are in, in metres; larger ones hide less, smaller ones are left sooner."""
_KEPT_SCREENS = 64


class Occluders:
    """The footprints and heights of all buildings."""

    def __init__(self, things: Sequence[StaticObject]) -> None:
        solid = [thing for thing in things if thing.kind in _SOLID_SHARE and thing.pose.z == 0]
        rows = [(t.pose.x, t.pose.y, t.pose.yaw, *(_SOLID_SHARE[t.kind][0] * s / 2 for s in t.size[:2])) for t in solid]
        x, y, yaw, length, width = np.array(rows).reshape(-1, 5).T[..., None]
        cos, sin = np.cos(np.radians(yaw)), np.sin(np.radians(yaw))
        u, v = length * np.array([1, 1, -1, -1]), width * np.array([1, -1, -1, 1])
        self._corners: Floats = np.stack([x + u * cos - v * sin, y + u * sin + v * cos], axis=2)
        self._middles: Floats = self._corners.mean(axis=1)
        self._heights = np.array([_SOLID_SHARE[t.kind][1] * t.size[2] for t in solid])
        self._reach = np.hypot(*(self._corners[:, 0] - self._corners[:, 2]).T) / 2
        self._kept = lru_cache(_KEPT_SCREENS)(self.seen_from)

    def around(self, eye: Floats) -> "Screen":
        """What the buildings hide from the square that the eye is in, and the metre of height."""
        x, y, z = eye.tolist()
        square = (x // _SQUARE + 0.5) * _SQUARE, (y // _SQUARE + 0.5) * _SQUARE
        return self._kept(*square, ceil(z), _SQUARE / 2**0.5)

    def seen_from(self, x: float, y: float, height: float, reach: float) -> "Screen":
        """What the buildings hide from everywhere within `reach` of a place and not above a height."""
        eye = np.array([x, y])
        distance = np.hypot(*(self._middles - eye).T)
        useful = np.flatnonzero((self._heights > height) & (distance > self._reach + reach))
        useful = useful[np.argsort(distance[useful], kind="stable")[:_NEAREST]]
        corners, middles = self._corners[useful] - eye, self._middles[useful, None] - eye
        turn = np.arctan2(_cross(middles, corners), (middles * corners).sum(axis=2))
        lean = np.arcsin(reach / np.hypot(corners[..., 0], corners[..., 1]))
        rows = np.arange(len(useful))
        first, last = (turn + lean).argmin(axis=1), (turn - lean).argmax(axis=1)
        left, right = corners[rows, first], corners[rows, last]
        along = np.stack([-_turned(left, lean[rows, first]), _turned(right, -lean[rows, last]), right - left])
        lines = np.stack([along[..., 1], -along[..., 0]], axis=1)
        lines /= np.maximum(np.hypot(along[..., 0], along[..., 1]), 1e-9)[:, None]
        behind = (left.T * lines[2]).sum(axis=0)
        in_front = behind > reach
        return Screen(eye, reach, lines[..., in_front], behind[in_front], self._heights[useful[in_front]])


@dataclass(frozen=True, eq=False)
class Screen:
    """Buildings as seen from one place."""

    eye: Floats
    reach: float
    """Metres round the eye that belong to the place."""
    lines: Floats
    """(3, 2, m): inward normals of the two tangents and of the chord of each building."""
    chord_distance: Floats
    heights: Floats

    def hides(self, centres: Floats, radii: Floats, tops: Floats) -> NDArray[np.bool_]:
        """Which upright cylinders (centre, radius in plan, height of the top) are wholly hidden."""
        points = centres[:, :2] - self.eye
        inside = np.minimum(points @ self.lines[0], points @ self.lines[1]) + self.reach
        np.minimum(inside, points @ self.lines[2] - self.chord_distance, out=inside)
        hidden: NDArray[np.bool_] = ((inside >= radii[:, None]) & (tops[:, None] <= self.heights)).any(axis=1)
        return hidden


def _turned(vectors: Floats, angles: Floats) -> Floats:
    """Plane vectors turned by angles, from x towards y."""
    cos, sin = np.cos(angles), np.sin(angles)
    x, y = vectors.T
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=1)


def _cross(a: Floats, b: Floats) -> Floats:
    product: Floats = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return product
