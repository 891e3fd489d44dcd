"""Decides with whole arrays which of many static things a camera may see; the engine gets only those."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.mesh import Mesh
from carla_bridge.simulator.rendering.occlusion import Screen

_KEPT = 64
_REFERENCE_FOCAL = 208.0
"""Drawing distances are meant for this focal length in pixels, which is that of a picture 416 wide over 90 degrees."""


@dataclass(frozen=True)
class Cell:
    """A square of the map, by its middle and half its edge."""

    x: float
    y: float
    half: float


@dataclass(frozen=True)
class Placed:
    """Bounds of something, and between which distances of its cell it is shown."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    cell: Cell
    start: float
    end: float


def cell_at(x: float, y: float, edge: float) -> Cell:
    return Cell((x // edge + 0.5) * edge, (y // edge + 0.5) * edge, edge / 2)


def placed(meshes: Sequence[Mesh], cell: Cell, start: float, end: float) -> Placed:
    """The place of something made of meshes."""
    low = np.min([mesh.points.min(axis=0) for mesh in meshes], axis=0)
    high = np.max([mesh.points.max(axis=0) for mesh in meshes], axis=0)
    return Placed(low, high, cell, start, end)


@dataclass(frozen=True)
class _Members:
    """Where things are, one row each."""

    numbers: NDArray[np.int64]
    centres: NDArray[np.float64]
    radii: NDArray[np.float64]
    plan_radii: NDArray[np.float64]
    tops: NDArray[np.float64]
    cells: NDArray[np.float64]
    """Middle and half edge."""
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]

    def away(self, eye: NDArray[np.float64], focal: float) -> NDArray[np.float64]:
        """Distance of the cells, as it looks with the reference focal length."""
        away: NDArray[np.float64] = np.hypot(*(self.cells[:, :2] - eye[:2]).T) - self.cells[:, 2]
        away *= _REFERENCE_FOCAL / focal
        return away

    def only(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "_Members":
        return _Members(*(column[rows] for column in vars(self).values()))


class Culling:
    """Knows where many fixed things are."""

    def __init__(self, members: Sequence[Placed], nearest_first: bool = False) -> None:
        """`nearest_first` lists what is seen by its cell's distance from the screen's place, not as it was given."""
        self._nearest_first = nearest_first
        boxes = np.array([(member.low, member.high) for member in members], np.float64).reshape(-1, 2, 3)
        halves = np.ptp(boxes, axis=1) / 2
        self._all = _Members(
            np.arange(len(members)),
            boxes.mean(axis=1),
            np.linalg.norm(halves, axis=1),
            np.linalg.norm(halves[:, :2], axis=1),
            boxes[:, 1, 2],
            np.array([(m.cell.x, m.cell.y, m.cell.half) for m in members]).reshape(-1, 3),
            np.array([m.start if m.start > 0 else -np.inf for m in members]),
            np.array([m.end for m in members]),
        )
        self._kept = lru_cache(_KEPT)(self._around)

    def seen(self, camera: Pinhole, screen: Screen) -> list[int]:
        """Which members this camera, which is where the screen is, may see, in order."""
        near = self._kept(screen, camera.focal)
        away = near.away(camera.position, camera.focal)
        shown = (away < near.ends) & (away >= near.starts) & camera.sees(near.centres, near.radii)
        seen: list[int] = near.numbers[shown].tolist()
        return seen

    def _around(self, screen: Screen, focal: float) -> _Members:
        """What may be seen from the screen's place in any direction."""
        away = self._all.away(screen.eye, focal)
        more = screen.reach * _REFERENCE_FOCAL / focal
        near = self._all.only((away - more < self._all.ends) & (away + more >= self._all.starts))
        near = near.only(~screen.hides(near.centres, near.plan_radii, near.tops))
        return near.only(np.argsort(near.away(screen.eye, focal), kind="stable")) if self._nearest_first else near
