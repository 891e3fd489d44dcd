"""The routes of all drivers in one table, so that a few array operations look along all of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.traffic.driver import LOST, Driver

Indices = NDArray[np.int64]

NEAR = 12
"""Rows of the route in which a vehicle's rear axle is searched for."""
BEHIND = 3
"""Rows before the nearest one at which the next search begins."""
SAMPLES, STRIDE = 46, 2
"""How many rows a driver looks at, and the step between them."""
ROOM = 128
"""Rows by which the table grows."""


class Places(NamedTuple):
    """Positions of the vehicles on their routes, one value per vehicle."""

    lost: NDArray[np.bool_]
    base: Indices
    """The row at which the next search begins."""
    s: Floats
    aside: Floats
    heading: Floats


class RouteTable:
    """Copies of the drivers' sampled routes; `refresh` copies those that have changed."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self._drivers = drivers
        self._known: list[Floats | None] = [None] * len(drivers)
        self._allocate(ROOM)
        self.refresh()

    def refresh(self) -> None:
        """Copy changed routes; call it before reading the table whenever a driver may have changed its route."""
        changed = [n for n, driver in enumerate(self._drivers) if driver.points is not self._known[n]]
        if not changed:
            return
        longest = max(self._drivers[number].points.shape[1] for number in changed)
        if longest > self._room:
            self._allocate(-(-longest // ROOM) * ROOM)
            changed = list(range(len(self._drivers)))
        for number in changed:
            points = self._drivers[number].points
            start, count = number * self._room, points.shape[1]
            self._columns[:, start : start + count] = points
            self._ends[number] = start + count - 1
            self._known[number] = points

    def locate(self, x: Floats, y: Floats, to_centre: Floats) -> Places:
        """Find the rear axles, which follow the paths, and how far along the vehicles' centres are."""
        base = np.array([driver.base for driver in self._drivers])
        rows = np.minimum((self._starts + base)[:, None] + _NEAR_ROWS, self._ends[:, None])
        dx, dy = self._columns[0].take(rows) - x[:, None], self._columns[1].take(rows) - y[:, None]
        gap = dx * dx + dy * dy
        best = gap.argmin(axis=1)
        every = np.arange(len(best))
        px, py, yaw, bend, _, _, arc = self._columns.take(rows[every, best], axis=1)
        dx, dy = x - px, y - py
        c, s = np.cos(yaw), np.sin(yaw)
        along = dx * c + dy * s
        return Places(
            lost=gap[every, best] > LOST * LOST,
            base=base + np.maximum(best - BEHIND, 0),
            s=np.maximum(0.0, arc + along + to_centre),
            aside=dy * c - dx * s - bend * along * along / 2,
            heading=yaw + bend * along,
        )

    def ahead(self, first: Indices) -> Floats:
        """Columns x, y, yaw, curvature, limit and comfortable speed of the rows from `first` on: (6, n, samples).

        If a route ends sooner, its last row is repeated.
        """
        start = self._starts + first
        last = start + (self._ends - start) // STRIDE * STRIDE
        rows = np.minimum(start[:, None] + _AHEAD_ROWS, last[:, None])
        ahead: Floats = self._columns[:6].take(rows, axis=1)
        return ahead

    def _allocate(self, room: int) -> None:
        self._room = room
        self._columns = np.zeros((7, len(self._drivers) * room))
        self._starts = room * np.arange(len(self._drivers))
        self._ends = self._starts.copy()


_NEAR_ROWS = np.arange(NEAR)
_AHEAD_ROWS = STRIDE * np.arange(SAMPLES)
