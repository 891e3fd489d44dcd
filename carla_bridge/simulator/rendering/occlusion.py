"""What buildings hide, so that it need not be drawn.

A thing is left out only if it lies wholly behind one building: between the two lines that touch the building's
footprint as seen from the camera, beyond the chord between the corners they touch, and no higher than its walls,
which must rise above the camera. Every ray to such a thing meets the building first, so no pixel changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.kinds import ObjectKind
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

    def seen_from(self, eye: Floats) -> "Screen":
        """What the buildings around `eye` hide."""
        distance = np.hypot(*(self._middles - eye[:2]).T)
        useful = np.flatnonzero((self._heights > eye[2]) & (distance > self._reach))
        useful = useful[np.argsort(distance[useful], kind="stable")[:_NEAREST]]
        corners, middles = self._corners[useful] - eye[:2], self._middles[useful, None] - eye[:2]
        turn = np.arctan2(_cross(middles, corners), (middles * corners).sum(axis=2))
        rows = np.arange(len(useful))
        first, last = corners[rows, turn.argmin(axis=1)], corners[rows, turn.argmax(axis=1)]
        along = np.stack([-first, last, last - first])
        lines = np.stack([along[..., 1], -along[..., 0]], axis=1)
        lines /= np.hypot(along[..., 0], along[..., 1])[:, None]
        return Screen(eye[:2], lines, (first.T * lines[2]).sum(axis=0), self._heights[useful])


@dataclass(frozen=True)
class Screen:
    """Buildings as seen from one eye."""

    eye: Floats
    lines: Floats
    """(3, 2, m): inward normals of the two tangents and of the chord of each building."""
    chord_distance: Floats
    heights: Floats

    def hides(self, centres: Floats, radii: Floats, tops: Floats) -> NDArray[np.bool_]:
        """Which upright cylinders (centre, radius in plan, height of the top) are wholly hidden."""
        points = centres[:, :2] - self.eye
        inside = np.minimum(points @ self.lines[0], points @ self.lines[1])
        np.minimum(inside, points @ self.lines[2] - self.chord_distance, out=inside)
        hidden: NDArray[np.bool_] = ((inside >= radii[:, None]) & (tops[:, None] <= self.heights)).any(axis=1)
        return hidden


def _cross(a: Floats, b: Floats) -> Floats:
    product: Floats = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return product
