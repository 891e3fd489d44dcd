"""Trees, bushes and hedges."""

import numpy as np

from carla_bridge.simulator.rendering import textures
from carla_bridge.simulator.rendering.mesh import Colour, Mesh, box, join, shade, tube
from carla_bridge.simulator.rendering.piece import Piece
from carla_bridge.simulator.scene import StaticObject

_BARK: Colour = (92, 74, 58)


def tree(thing: StaticObject, near: bool) -> list[Piece]:
    """A trunk and a crown of a few round masses, as wide as the box."""
    length, width, height = thing.size
    reach, low = min(length, width) / 2, 0.3 * height
    rng = np.random.default_rng([3, thing.variant])
    colour = _leaf(thing, rng)
    trunk = tube((0, 0, 0), (0, 0, 0.5 * height), (0.05 * length, 0.03 * length), _BARK, 6 if near else 4)
    middle = 0.5 * (low + height)
    if not near:
        crown = _blob((0, 0, middle), (reach, reach, height - middle), colour, rng, 6, 4)
        return [Piece(crown, textures.LEAVES), Piece(trunk)]
    masses = [_blob((0, 0, middle), (0.82 * reach, 0.82 * reach, height - middle), colour, rng, 8, 5)]
    for turn in range(3):
        angle = 2.1 * turn + rng.uniform(0, 1)
        place = (0.5 * reach * np.cos(angle), 0.5 * reach * np.sin(angle), middle + rng.uniform(-0.16, 0.1) * height)
        size = 0.5 * reach
        masses.append(_blob(place, (size, size, 0.9 * size), shade(colour, rng.uniform(0.85, 1.12)), rng, 6, 4))
    return [Piece(join(masses), textures.LEAVES), Piece(trunk)]


def conifer(thing: StaticObject, near: bool) -> list[Piece]:
    """Tiers of drooping branches around a trunk."""
    length, width, height = thing.size
    reach = min(length, width) / 2
    rng = np.random.default_rng([4, thing.variant])
    colour = _leaf(thing, rng)
    tiers, sides = (4, 8) if near else (2, 6)
    skirts = []
    for tier in range(tiers):
        share = tier / tiers
        low = (0.12 + 0.8 * share) * height
        high = min(low + (1.7 / tiers) * 0.8 * height, height)
        wide = reach * (1 - 0.82 * share)
        skirt = tube((0, 0, low), (0, 0, high), (wide, 0.04 * reach), shade(colour, 0.85 + 0.3 * share), sides)
        skirt.normals[:, 2] += 0.5
        skirt.colours[:sides, :3] = skirt.colours[:sides, :3] * 0.7
        skirt.uv[:] = _round_uv(skirt, 3.0)
        skirts.append(skirt)
    trunk = tube((0, 0, 0), (0, 0, 0.2 * height), (0.07 * length, 0.06 * length), _BARK, 5)
    return [Piece(join(skirts), textures.NEEDLES), Piece(trunk)]


def bush(thing: StaticObject) -> list[Piece]:
    """A round shrub."""
    length, width, height = thing.size
    rng = np.random.default_rng([5, thing.variant])
    return [
        Piece(
            _blob((0, 0, 0.45 * height), (length / 2, width / 2, 0.55 * height), _leaf(thing, rng), rng, 7, 4),
            textures.LEAVES,
        )
    ]


def hedge(thing: StaticObject) -> list[Piece]:
    """A trimmed box of leaves."""
    length, width, height = thing.size
    body = box((-length / 2, -width / 2, 0), (length / 2, width / 2, height), thing.colour, "front back left right top")
    body.uv[:, 0] *= max(length / 2, 1)
    return [Piece(body, textures.LEAVES)]


def _leaf(thing: StaticObject, rng: np.random.Generator) -> Colour:
    return shade(thing.colour, float(rng.uniform(0.95, 1.25)))


def _blob(
    centre: tuple[float, float, float],
    radii: tuple[float, float, float],
    colour: Colour,
    rng: np.random.Generator,
    sides: int,
    rows: int,
) -> Mesh:
    """A bumpy ellipsoid, darker below."""
    rise = np.linspace(-1, 1, rows + 1)
    parts = []
    bumps = rng.uniform(0.86, 1.1, (rows + 1, sides))
    middle = np.asarray(centre, np.float32)
    for row in range(rows):
        (z0, z1), (r0, r1) = rise[row : row + 2], np.sqrt(np.maximum(1 - rise[row : row + 2] ** 2, 0.02))
        ring = tube((0, 0, z0), (0, 0, z1), (r0, r1), colour, sides)
        ring.points[:sides, :2] *= bumps[row][:, None]
        ring.points[sides:, :2] *= bumps[row + 1][:, None]
        ring.normals[:] = ring.points / np.linalg.norm(ring.points, axis=1, keepdims=True)
        level = 0.72 + 0.34 * (ring.points[:, 2:] * 0.5 + 0.5)
        ring.colours[:, :3] = np.clip(ring.colours[:, :3] * level, 0, 255)
        ring.uv[:] = _round_uv(ring, 2.0)
        ring.points[:] = ring.points * np.asarray(radii, np.float32) + middle
        parts.append(ring)
    return join(parts)


def _round_uv(mesh: Mesh, repeats: float) -> np.ndarray:
    """Texture coordinates from the direction and height of each vertex; the seam does not show in leaves."""
    angle = np.arctan2(np.abs(mesh.points[:, 1]), mesh.points[:, 0]) / np.pi
    scale = float(np.ptp(mesh.points[:, 2]))
    return np.stack([repeats * angle, repeats * mesh.points[:, 2] / (2 * scale)], axis=1)
