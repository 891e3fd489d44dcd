"""A plan of the town seen from above: how bright the ground is where shadows and stains lie on it.

Shadows are cast by flat projection along the sun onto z = 0 and merged in this plan, so that overlapping ones do not
darken twice; they look soft because pictures sample the plan smoothly.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.catalogue.kinds import ObjectKind
from carla_bridge.simulator.rendering.light import Light
from carla_bridge.simulator.rendering.noise import fractal_tile
from carla_bridge.simulator.scene import StaticObject, Town

METRES_PER_CELL = 0.5
PLAIN = 232
"""The plan's value where ground has just its own colour."""
_LONGEST = 45.0
"""A low sun throws shadows no longer than this, in metres."""
_SUN_STEP = 3.0
"""Degrees by which the sun must move before shadows are cast again."""
_STRENGTH_STEP = 0.05
_MOST_CELLS = 8000
_CROWNS = {ObjectKind.TREE.value, ObjectKind.CONIFER.value, ObjectKind.BUSH.value}
_BLOCKS = {
    ObjectKind.BUILDING.value,
    ObjectKind.TOWER.value,
    ObjectKind.HOUSE.value,
    ObjectKind.SHED.value,
    ObjectKind.KIOSK.value,
    ObjectKind.PARKED_CAR.value,
    ObjectKind.NOISE_WALL.value,
    ObjectKind.BARRIER.value,
    ObjectKind.HEDGE.value,
    ObjectKind.BUS_SHELTER.value,
    ObjectKind.BILLBOARD.value,
}
Outlines = NDArray[np.float64]


class GroundPlan:
    """Brightness of the ground at any place, as an image of the town."""

    def __init__(self, town: Town) -> None:
        self._crowns = [thing for thing in town.objects if thing.kind in _CROWNS]
        self._blocks = [thing for thing in town.objects if thing.kind in _BLOCKS]
        places = np.array([(thing.pose.x, thing.pose.y) for thing in town.objects] or [(0.0, 0.0)])
        low, high = places.min(axis=0) - 60, places.max(axis=0) + 60
        self.origin = (float(low[0]), float(low[1]))
        width, height = np.clip(np.ceil((high - low) / METRES_PER_CELL), 1, _MOST_CELLS).astype(int).tolist()
        self._shape = (height, width)
        self._key: tuple[int, int, int] | None = None
        self._stains = self._stained()
        self._mask = self._plan = self._stains

    def under(self, light: Light) -> NDArray[np.uint8]:
        """The plan for this sun and this strength of shadows."""
        strength = round(light.shadow / _STRENGTH_STEP)
        if strength == 0:
            return self._stains
        x, y, z = light.to_sun.tolist()
        azimuth, altitude = np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(z))
        key = (round(azimuth / _SUN_STEP), max(round(altitude / _SUN_STEP), 1), strength)
        if key != self._key:
            if self._key is None or key[:2] != self._key[:2]:
                self._mask = self._cast_shadows(np.radians(key[0] * _SUN_STEP), np.radians(key[1] * _SUN_STEP))
            darkening = 255 - np.arange(256) * (strength * _STRENGTH_STEP)
            levels = cv2.LUT(self._mask, np.round(darkening).astype(np.uint8))
            self._plan = _bytes(cv2.multiply(self._stains, levels, scale=1 / 255))
            self._key = key
        return self._plan

    def _cast_shadows(self, azimuth: float, altitude: float) -> NDArray[np.uint8]:
        away = -np.array([np.cos(azimuth), np.sin(azimuth)]) / np.tan(altitude)
        mask = np.zeros(self._shape, np.uint8)
        self._fill(mask, _crown_shadows(self._crowns, away), 255)
        self._fill(mask, [_hull(outline) for outline in _block_shadows(self._blocks, away)], 255)
        return _bytes(cv2.blur(mask, (3, 3)))

    def _stained(self) -> NDArray[np.uint8]:
        """Patches of wear and colour, and the dimness at the foot of walls."""
        tile = fractal_tile(512, (8, 16, 64, 128), 0.7, seed=5)
        level = np.round(PLAIN - 24 + 47 * tile).astype(np.uint8)
        height, width = self._shape
        stains = np.tile(level, (height // 512 + 1, width // 512 + 1))[:height, :width]
        dim = np.full(self._shape, 255, np.uint8)
        self._fill(dim, _block_shadows(self._blocks, np.zeros(2))[:, :4], 150)
        return _bytes(cv2.multiply(np.ascontiguousarray(stains), cv2.blur(dim, (7, 7)), scale=1 / 255))

    def _fill(self, image: NDArray[np.uint8], outlines: Outlines | Sequence[Outlines], level: int) -> None:
        for outline in outlines:
            cells = np.round((outline - self.origin) * (8 / METRES_PER_CELL)).astype(np.int32)
            cv2.fillConvexPoly(image, cells, level, shift=3)


def _crown_shadows(things: Sequence[StaticObject], away: NDArray[np.float64]) -> Outlines:
    """(n, 12, 2): ellipses beside the foot of each tree, drawn out away from the sun."""
    table = np.array([(t.pose.x, t.pose.y, t.size[0] / 2, t.pose.z + t.size[2]) for t in things]).reshape(-1, 4)
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    stretch = np.linalg.norm(away)
    along = away / max(float(stretch), 1e-6)
    across = np.array([-along[1], along[0]])
    reach = np.minimum(stretch * table[:, 3], _LONGEST)
    middle = table[:, :2] + 0.6 * reach[:, None] * along
    half = table[:, 2] + 0.3 * reach
    outlines: Outlines = (
        middle[:, None]
        + (half[:, None] * np.cos(angle))[..., None] * along
        + (table[:, 2:3] * np.sin(angle))[..., None] * across
    )
    return outlines


def _block_shadows(things: Sequence[StaticObject], away: NDArray[np.float64]) -> Outlines:
    """(n, 8, 2): corners of the base of each box and of its top, thrown to the ground."""
    rows = [(t.pose.x, t.pose.y, t.pose.yaw, t.size[0] / 2, t.size[1] / 2, t.pose.z + t.size[2]) for t in things]
    x, y, yaw, length, width, height = np.array(rows).reshape(-1, 6).T[..., None]
    cos, sin = np.cos(np.radians(yaw)), np.sin(np.radians(yaw))
    u, v = length * np.array([1, 1, -1, -1]), width * np.array([1, -1, -1, 1])
    base = np.stack([x + u * cos - v * sin, y + u * sin + v * cos], axis=2)
    thrown = height * away
    thrown *= np.minimum(1, _LONGEST / np.maximum(np.linalg.norm(thrown, axis=1, keepdims=True), 1e-6))
    return np.concatenate([base, base + thrown[:, None]], axis=1)


def _hull(points: Outlines) -> Outlines:
    return np.asarray(cv2.convexHull(points.astype(np.float32))[:, 0], np.float64)


def _bytes(image: object) -> NDArray[np.uint8]:
    return np.asarray(image, np.uint8)
