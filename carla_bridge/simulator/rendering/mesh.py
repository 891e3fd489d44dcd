"""Triangles as arrays, and the few solids from which every thing in the town is put together.

Meshes live in CARLA's axes (x forward, y right, z up), have their own vertices per face (so faces shade flat and
crisp) and carry a normal and a colour per vertex. Which way round a triangle is listed does not matter here: the
engine's side orders it by the normal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

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

    def copies(self, places: ArrayLike, yaws: ArrayLike, scales: ArrayLike) -> Mesh:
        """One mesh of n copies: (n, 3) places, (n,) yaws in CARLA's degrees, (n, 3) scales along the own axes."""
        angle = np.radians(np.asarray(yaws, np.float32))[:, None]
        cos, sin = np.cos(angle), np.sin(angle)

        def turned(vectors: Floats) -> Floats:
            x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
            return np.stack([x * cos - y * sin, x * sin + y * cos, np.broadcast_to(z, (len(cos), z.shape[1]))], 2)

        count, size = len(angle), len(self.points)
        points = turned(self.points[None] * np.asarray(scales, np.float32)[:, None])
        points += np.asarray(places, np.float32)[:, None]
        first = size * np.arange(count, dtype=np.int32)[:, None, None]
        return Mesh(
            points.reshape(-1, 3),
            turned(self.normals[None]).reshape(-1, 3),
            np.tile(self.colours, (count, 1)),
            np.tile(self.uv, (count, 1)),
            (self.triangles[None] + first).reshape(-1, 3),
        )

    def coded(self, code: int) -> Mesh:
        """The same mesh with `code` in every vertex' alpha."""
        colours = self.colours.copy()
        colours[:, 3] = code
        return replace(self, colours=colours)


@dataclass(frozen=True)
class Piece:
    """A mesh in the object's own frame and how its surface is drawn."""

    mesh: Mesh
    texture: str | None = None
    shining: bool = False
    """Keeps its colour in any light: lamps."""


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


def fitted(mesh: Mesh, extent: Sequence[float]) -> Mesh:
    """Squeezed along x and y where it would stick out of its bounding box of half sizes `extent`."""
    reach = np.abs(mesh.points).max(axis=0)
    room = np.array([extent[0], extent[1], np.inf]) / np.maximum(reach, 1e-6)
    return replace(mesh, points=mesh.points * np.minimum(room, 1).astype(np.float32))


def quads(corners: ArrayLike, colour: ArrayLike, outward_from: ArrayLike | None = None) -> Mesh:
    """(n, 4, 3) corners, each quad flat and listed around its edge; one colour, or one per quad.

    Normals point away from `outward_from` (a point inside the thing) if given, else by the corner order.
    """
    corners = np.asarray(corners, np.float32).reshape(-1, 4, 3)
    normals = cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    normals /= np.sqrt((normals * normals).sum(axis=1, keepdims=True)) + 1e-9
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
    """An upright box between two corners; `faces` may leave out those that are never seen."""
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
    a, b = np.asarray(start, np.float32), np.asarray(end, np.float32)
    spoke = _spokes(tuple((b - a).tolist()), sides, 0.5)
    points = np.concatenate([a + radii[0] * spoke, b + radii[1] * spoke], dtype=np.float32)
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
        np.concatenate([spoke, spoke]),
        rgba,
        np.zeros((2 * sides, 2), np.float32),
        triangles.astype(np.int32),
    )


def disc(centre: Sequence[float], radius: float, normal: Sequence[float], colour: Colour, sides: int = 10) -> Mesh:
    """A flat round plate that faces along `normal`."""
    rim = np.asarray(centre, np.float32) + radius * _spokes(tuple(normal), sides, 0.0)
    return polygon(rim, colour, normal)


def _spokes(axis: tuple[float, ...], sides: int, start: float) -> Floats:
    """(sides, 3) unit vectors around an axis."""
    x, y, z = (component / sqrt(sum(part * part for part in axis)) for component in axis)
    if abs(z) < 0.9:
        flat = sqrt(x * x + y * y)
        u = (y / flat, -x / flat, 0.0)
    else:
        flat = sqrt(y * y + z * z)
        u = (0.0, z / flat, -y / flat)
    v = (y * u[2] - z * u[1], z * u[0] - x * u[2], x * u[1] - y * u[0])
    angle = 2 * np.pi * (np.arange(sides, dtype=np.float32) + np.float32(start)) / sides
    spokes: Floats = np.outer(np.cos(angle), np.asarray(u, np.float32))
    spokes += np.outer(np.sin(angle), np.asarray(v, np.float32))
    return spokes


def cross(a: Floats, b: Floats) -> Floats:
    """Cross products of (n, 3) rows; numpy's own is many times slower on small arrays."""
    product = np.empty_like(a)
    product[:, 0] = a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1]
    product[:, 1] = a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]
    product[:, 2] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return product


def shade(colour: Sequence[float], factor: float) -> Colour:
    """The colour, darker (below 1) or lighter (above 1)."""
    r, g, b = (int(min(max(channel * factor, 0), 255)) for channel in colour)
    return r, g, b
