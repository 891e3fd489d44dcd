"""Trees, bushes and hedges."""

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering import textures
from carla_bridge.simulator.rendering.mesh import Colour, Mesh, Piece, box, join, shade, tube
from carla_bridge.simulator.scene import StaticObject

_BARK: Colour = (92, 74, 58)


def tree(thing: StaticObject, near: bool) -> list[Piece]:
    """A trunk and a crown of a few round masses, as wide as the box."""
    length, width, height = thing.size
    reach, low = min(length, width) / 2, 0.3 * height
    rng = np.random.default_rng([3, thing.variant])
    colour = _leaf(thing, rng)
    trunk = tube((0, 0, 0), (0, 0, 0.5 * height), (0.05 * length, 0.03 * length), _BARK, 6 if near else 3)
    middle = 0.5 * (low + height)
    if not near:
        crown = _blob((0, 0, middle), (reach, reach, height - middle), colour, rng, 5, 3)
        return [Piece(join([crown, trunk]), textures.LEAVES)]
    masses = [_blob((0, 0, middle), (0.82 * reach, 0.82 * reach, height - middle), colour, rng, 8, 4)]
    for turn in range(3):
        angle = 2.1 * turn + rng.uniform(0, 1)
        place = (0.5 * reach * np.cos(angle), 0.5 * reach * np.sin(angle), middle + rng.uniform(-0.16, 0.1) * height)
        size = 0.5 * reach
        masses.append(_blob(place, (size, size, 0.9 * size), shade(colour, rng.uniform(0.85, 1.12)), rng, 6, 4))
    return [Piece(join([*masses, trunk]), textures.LEAVES)]


def conifer(thing: StaticObject, near: bool) -> list[Piece]:
    """Tiers of drooping branches around a trunk."""
    length, width, height = thing.size
    reach = min(length, width) / 2
    rng = np.random.default_rng([4, thing.variant])
    colour = _leaf(thing, rng)
    tiers, sides = (4, 8) if near else (2, 5)
    skirts = []
    for tier in range(tiers):
        share = tier / tiers
        low = (0.12 + 0.8 * share) * height
        high = min(low + (1.7 / tiers) * 0.8 * height, height)
        wide = reach * (1 - 0.82 * share)
        skirt = tube((0, 0, low), (0, 0, high), (wide, 0.04 * reach), shade(colour, 0.85 + 0.3 * share), sides)
        skirt.normals[:, 2] += 0.5
        skirt.colours[:sides, :3] = skirt.colours[:sides, :3] * 0.7
        skirt.uv[:] = _round_uv(skirt.points, 3.0)
        skirts.append(skirt)
    trunk = tube((0, 0, 0), (0, 0, 0.2 * height), (0.07 * length, 0.06 * length), _BARK, 5 if near else 3)
    return [Piece(join([*skirts, trunk]), textures.LEAVES)]


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
    """A bumpy ellipsoid, darker below: rings between two poles."""
    rise = np.linspace(-1, 1, rows + 1)[1:-1, None]
    angle = 2 * np.pi * np.arange(sides) / sides
    wide = np.sqrt(1 - rise**2) * rng.uniform(0.86, 1.1, (rows - 1, sides))
    ball = np.stack([wide * np.cos(angle), wide * np.sin(angle), np.broadcast_to(rise, wide.shape)], axis=2)
    points = np.concatenate([ball.reshape(-1, 3), [(0, 0, -1), (0, 0, 1)]]).astype(np.float32)
    here = np.arange((rows - 1) * sides).reshape(rows - 1, sides)
    beside = np.roll(here, -1, axis=1)
    bottom, top = np.broadcast_to([[len(points) - 2], [len(points) - 1]], (2, sides))
    corners = np.concatenate(
        [
            np.stack([here, beside, here + sides], axis=2)[:-1].reshape(-1, 3),
            np.stack([beside, beside + sides, here + sides], axis=2)[:-1].reshape(-1, 3),
            np.stack([here[0], beside[0], bottom], axis=1),
            np.stack([here[-1], beside[-1], top], axis=1),
        ]
    )
    level = 0.72 + 0.34 * (points[:, 2:] * 0.5 + 0.5)
    rgba = np.full((len(points), 4), 255, np.uint8)
    rgba[:, :3] = np.clip(np.asarray(colour) * level, 0, 255)
    return Mesh(
        points * np.asarray(radii, np.float32) + np.asarray(centre, np.float32),
        points / np.linalg.norm(points, axis=1, keepdims=True),
        rgba,
        _round_uv(points, 2.0),
        corners.astype(np.int32),
    )


def _round_uv(points: NDArray[np.float32], repeats: float) -> NDArray[np.float32]:
    """Texture coordinates from the direction and height of each vertex; the seam does not show in leaves."""
    angle = np.arctan2(np.abs(points[:, 1]), points[:, 0]) / np.pi
    scale = float(np.ptp(points[:, 2]))
    return np.stack([repeats * angle, repeats * points[:, 2] / (2 * scale)], axis=1).astype(np.float32)
