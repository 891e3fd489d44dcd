"""Which boxes overlap on the ground, for many pairs at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors.actor import Actor
from carla_bridge.simulator.actors.tables import table
from carla_bridge.simulator.catalogue.kinds import ObjectKind
from carla_bridge.simulator.scene import StaticObject
from carla_bridge.simulator.town.path import Floats

CELL = 25.0
_SOFT = {
    ObjectKind.BUSH.value,
    ObjectKind.TRAFFIC_LIGHT.value,
    ObjectKind.SPEED_SIGN.value,
    ObjectKind.GANTRY_SIGN.value,
    ObjectKind.DIRECTION_SIGN.value,
    ObjectKind.GANTRY.value,
}
_TRUNKS = {
    ObjectKind.TREE.value,
    ObjectKind.CONIFER.value,
    ObjectKind.LAMP.value,
    ObjectKind.TRAFFIC_LIGHT_POLE.value,
}


def footprints(actors: Sequence[Actor]) -> Floats:
    """(n, 5) rows of x, y, yaw in radians, half length, half width."""
    rows = []
    for actor in actors:
        x, y, _, _, yaw, _ = actor.pose
        rows.append((x, y, yaw, *actor.extent[:2]))
    boxes = table(rows, 5)
    boxes[:, 2] = np.radians(boxes[:, 2])
    return boxes


def overlaps(one: Floats, two: Floats) -> NDArray[np.bool_]:
    """Row by row: do the rectangles of `one` and `two` overlap? (Separating axes.)"""
    gap_x, gap_y = two[:, 0] - one[:, 0], two[:, 1] - one[:, 1]
    turn = two[:, 2] - one[:, 2]
    c, s = np.abs(np.cos(turn)), np.abs(np.sin(turn))
    base = np.stack((one, two))  # along the axes of each of the two
    other = base[::-1]
    fx, fy = np.cos(base[..., 2]), np.sin(base[..., 2])
    ahead = np.abs(gap_x * fx + gap_y * fy)
    aside = np.abs(-gap_x * fy + gap_y * fx)
    meet = ahead < base[..., 3] + other[..., 3] * c + other[..., 4] * s
    meet &= aside < base[..., 4] + other[..., 3] * s + other[..., 4] * c
    both: NDArray[np.bool_] = meet[0] & meet[1]
    return both


def overlapping_pairs(boxes: Floats) -> list[tuple[int, int]]:
    """Indices (i < j) of boxes that overlap."""
    if len(boxes) < 2:
        return []
    reach = np.hypot(boxes[:, 3], boxes[:, 4])
    x, y = boxes[:, 0].copy(), boxes[:, 1].copy()
    squared, dy = x[:, None] - x, y[:, None] - y
    squared *= squared
    dy *= dy
    squared += dy
    close = squared < (reach[:, None] + reach) ** 2
    first, second = divmod(np.flatnonzero(close), len(boxes))
    once = first < second
    first, second = first[once], second[once]
    if not len(first):
        return []
    hit = overlaps(boxes[first], boxes[second])
    return list(zip(first[hit].tolist(), second[hit].tolist(), strict=True))


class Obstacles:
    """The solid things of the map, found by place."""

    def __init__(self, objects: Sequence[StaticObject]) -> None:
        self._objects = [thing for thing in objects if thing.kind not in _SOFT and thing.pose.z < 1.0]
        rows = []
        for thing in self._objects:
            long, wide = thing.size[0] / 2, thing.size[1] / 2
            if thing.kind in _TRUNKS:
                long = wide = 0.2
            rows.append((thing.pose.x, thing.pose.y, np.radians(thing.pose.yaw), long, wide))
        self._boxes = np.array(rows, dtype=np.float64).reshape(-1, 5)
        self._cells: dict[tuple[int, int], list[int]] = {}
        for number, (x, y, yaw, long, wide) in enumerate(rows):
            half_x = abs(np.cos(yaw)) * long + abs(np.sin(yaw)) * wide
            half_y = abs(np.sin(yaw)) * long + abs(np.cos(yaw)) * wide
            for column in range(int((x - half_x) // CELL), int((x + half_x) // CELL) + 1):
                for row in range(int((y - half_y) // CELL), int((y + half_y) // CELL) + 1):
                    self._cells.setdefault((column, row), []).append(number)

    def hit_by(self, box: Floats) -> StaticObject | None:
        """The first object that one box overlaps, if any."""
        x, y, _, long, wide = box
        reach = float(np.hypot(long, wide))
        near = {
            number
            for column in range(int((x - reach) // CELL), int((x + reach) // CELL) + 1)
            for row in range(int((y - reach) // CELL), int((y + reach) // CELL) + 1)
            for number in self._cells.get((column, row), ())
        }
        if not near:
            return None
        chosen = np.array(sorted(near))
        hit = overlaps(np.repeat(box[None, :], len(chosen), axis=0), self._boxes[chosen])
        return self._objects[int(chosen[np.argmax(hit)])] if hit.any() else None
