"""Triangles as arrays, and the few solids from which every thing in the town is put together.

Meshes live in CARLA's axes (x forward, y right, z up), have their own vertices per face (so faces shade flat and
crisp) and carry a normal and a colour per vertex. Which way round a triangle is listed does not matter here: the
engine's side orders it by the normal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Mesh:
    """Triangles with per-vertex normal, colour and texture coordinate."""

    points: Floats
    normals: Floats
    colours: NDArray[np.uint8]
    """(n, 4); alpha is the id code of what does not get one per picture."""
    uv: Floats
    triangles: NDArray[np.int32]

    def moved(self, offset: ArrayLike) -> Mesh:
        return replace(self, points=self.points + np.asarray(offset, np.float32))

    def turned(self, yaw: float) -> Mesh:
        """Rotated about z by CARLA's yaw in degrees."""
        c, s = np.cos(np.radians(yaw)), np.sin(np.radians(yaw))
        matrix = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]], np.float32)
        return replace(self, points=self.points @ matrix, normals=self.normals @ matrix)

    def tilted(self, pitch: float, pivot: Sequence[float]) -> Mesh:
        """Rotated about the y axis through `pivot`, nose up positive, in degrees."""
        c, s = np.cos(np.radians(pitch)), np.sin(np.radians(pitch))
        matrix = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]], np.float32)
        origin = np.asarray(pivot, np.float32)
        points = ((self.points - origin) @ matrix + origin).astype(np.float32)
        return replace(self, points=points, normals=self.normals @ matrix)

    def coded(self, code: int) -> Mesh:
        """The same mesh with `code` in every vertex' alpha."""
        colours = self.colours.copy()
        colours[:, 3] = code
        return replace(self, colours=colours)

    @property
    def size(self) -> Floats:
        extent: Floats = np.ptp(self.points, axis=0)
        return extent


def empty() -> Mesh:
    return Mesh(
        np.zeros((0, 3), np.float32),
        np.zeros((0, 3), np.float32),
        np.zeros((0, 4), np.uint8),
        np.zeros((0, 2), np.float32),
        np.zeros((0, 3), np.int32),
    )


def join(meshes: Iterable[Mesh]) -> Mesh:
    """One mesh of many."""
    parts = [part for part in meshes if len(part.points)]
    if not parts:
        return empty()
    starts = np.cumsum([0] + [len(part.points) for part in parts[:-1]])
    return Mesh(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.colours for part in parts]),
        np.concatenate([part.uv for part in parts]),
        np.concatenate([part.triangles + start for part, start in zip(parts, starts, strict=True)]),
    )


def quads(corners: ArrayLike, colour: ArrayLike, outward_from: ArrayLike | None = None) -> Mesh:
    """(n, 4, 3) corners, each quad flat and listed around its edge; one colour, or one per quad.

    Normals point away from `outward_from` (a point inside the thing) if given, else by the corner order.
    """
    corners = np.asarray(corners, np.float32).reshape(-1, 4, 3)
    normals = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    if outward_from is not None:
        away = corners.mean(axis=1) - np.asarray(outward_from, np.float32)
        normals *= np.where((normals * away).sum(axis=1, keepdims=True) < 0, -1, 1)
    count = len(corners)
    first = 4 * np.arange(count, dtype=np.int32)[:, None]
    triangles = (first + np.array([0, 1, 2, 0, 2, 3])).reshape(-1, 3)
    rgb = np.broadcast_to(np.asarray(colour, np.uint8), (count, 3))
    rgba = np.concatenate([rgb, np.full((count, 1), 255, np.uint8)], axis=1)
    uv = np.tile(np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32), (count, 1))
    return Mesh(
        corners.reshape(-1, 3),
        np.repeat(normals, 4, axis=0).astype(np.float32),
        np.repeat(rgba, 4, axis=0),
        uv,
        triangles.astype(np.int32),
    )


def polygon(points: ArrayLike, colour: ArrayLike, normal: Sequence[float]) -> Mesh:
    """A flat convex polygon as a fan."""
    points = np.asarray(points, np.float32)
    count = len(points)
    rgba = np.empty((count, 4), np.uint8)
    rgba[:, :3] = colour
    rgba[:, 3] = 255
    fan = np.stack([np.zeros(count - 2), np.arange(1, count - 1), np.arange(2, count)], axis=1)
    return Mesh(
        points,
        np.tile(np.asarray(normal, np.float32), (count, 1)),
        rgba,
        np.zeros((count, 2), np.float32),
        fan.astype(np.int32),
    )


def box(
    low: Sequence[float],
    high: Sequence[float],
    colour: Colour,
    faces: str = "front back left right top bottom",
) -> Mesh:
    """An upright box between two corners; `faces` leaves out those that nobody will see."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    all_faces = {
        "front": [(x1, y0, z0), (x1, y1, z0), (x1, y1, z1), (x1, y0, z1)],
        "back": [(x0, y0, z0), (x0, y1, z0), (x0, y1, z1), (x0, y0, z1)],
        "left": [(x0, y0, z0), (x1, y0, z0), (x1, y0, z1), (x0, y0, z1)],
        "right": [(x0, y1, z0), (x1, y1, z0), (x1, y1, z1), (x0, y1, z1)],
        "top": [(x0, y0, z1), (x1, y0, z1), (x1, y1, z1), (x0, y1, z1)],
        "bottom": [(x0, y0, z0), (x1, y0, z0), (x1, y1, z0), (x0, y1, z0)],
    }
    centre = ((x0 + x1) / 2, (y0 + y1) / 2, (z0 + z1) / 2)
    return quads([all_faces[name] for name in faces.split()], colour, outward_from=centre)


def rings(sections: ArrayLike, colour: ArrayLike, centre: ArrayLike | None = None, closed: bool = True) -> Mesh:
    """Skin over (n, k, 3) cross-sections; one colour, or one per strip (k) or per section gap and strip."""
    sections = np.asarray(sections, np.float32)
    around = np.concatenate([sections, sections[:, :1]], axis=1) if closed else sections
    corners = np.stack([around[:-1, :-1], around[:-1, 1:], around[1:, 1:], around[1:, :-1]], axis=2)
    gaps, strips = corners.shape[:2]
    rgb = np.broadcast_to(np.asarray(colour, np.uint8), (gaps, strips, 3)).reshape(-1, 3)
    middle = sections.reshape(-1, 3).mean(axis=0) if centre is None else centre
    return quads(corners.reshape(-1, 4, 3), rgb, outward_from=middle)


def tube(
    start: Sequence[float], end: Sequence[float], radii: tuple[float, float], colour: Colour, sides: int = 6
) -> Mesh:
    """A straight limb or pole from `start` to `end`, open at its ends, rounded by its normals."""
    a, b = np.asarray(start, np.float64), np.asarray(end, np.float64)
    axis = (b - a) / np.linalg.norm(b - a)
    helper = np.array([1.0, 0, 0]) if abs(axis[0]) < 0.9 else np.array([0, 1.0, 0])
    u = np.cross(axis, helper)
    u /= np.linalg.norm(u)
    v = np.cross(axis, u)
    angle = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    spoke = np.cos(angle)[:, None] * u + np.sin(angle)[:, None] * v
    points = np.concatenate([a + radii[0] * spoke, b + radii[1] * spoke]).astype(np.float32)
    index = np.arange(sides)
    following = (index + 1) % sides
    triangles = np.concatenate(
        [
            np.stack([index, following, following + sides], axis=1),
            np.stack([index, following + sides, index + sides], axis=1),
        ]
    )
    rgba = np.empty((2 * sides, 4), np.uint8)
    rgba[:] = (*colour, 255)
    return Mesh(
        points,
        np.tile(spoke, (2, 1)).astype(np.float32),
        rgba,
        np.zeros((2 * sides, 2), np.float32),
        triangles.astype(np.int32),
    )


def disc(centre: Sequence[float], radius: float, normal: Sequence[float], colour: Colour, sides: int = 10) -> Mesh:
    """A flat round plate that faces along `normal`."""
    n = np.asarray(normal, np.float64)
    helper = np.array([0, 0, 1.0]) if abs(n[2]) < 0.9 else np.array([1.0, 0, 0])
    u = np.cross(n, helper)
    u /= np.linalg.norm(u)
    v = np.cross(n, u)
    angle = 2 * np.pi * np.arange(sides) / sides
    rim = np.asarray(centre) + radius * (np.cos(angle)[:, None] * u + np.sin(angle)[:, None] * v)
    return polygon(rim, colour, list(n))


def shade(colour: Sequence[float], factor: float) -> Colour:
    """The colour, darker (below 1) or lighter (above 1)."""
    r, g, b = (int(min(max(channel * factor, 0), 255)) for channel in colour)
    return r, g, b
