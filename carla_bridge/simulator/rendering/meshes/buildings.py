"""Houses of all sizes: textured walls, plain roofs."""

import numpy as np

from carla_bridge.simulator.rendering import textures
from carla_bridge.simulator.rendering.mesh import Colour, Mesh, Piece, box, join, quads, shade
from carla_bridge.simulator.scene import StaticObject

_BAY, _FLOOR, _SHOP_HEIGHT = 3.0, 3.2, 3.8
_ROOFS: tuple[Colour, ...] = ((150, 74, 56), (120, 70, 58), (92, 88, 90), (132, 98, 74))


def building(thing: StaticObject) -> list[Piece]:
    """Storeys of windows under a flat roof with a parapet; shops at the foot of every other one."""
    length, width, height = thing.size
    foot = _SHOP_HEIGHT if thing.variant % 2 == 0 and height > 9 else 0.0
    roof = shade((118, 114, 110), 0.9 + 0.05 * (thing.variant % 4))
    top = join(
        [
            _slab(length, width, height - 0.5, roof),
            _parapet(length, width, height - 0.5, height, shade(thing.colour, 0.85)),
            box((-0.2 * length, -0.2 * width, height - 0.5), (0.1 * length, 0.15 * width, height), (150, 150, 148)),
        ]
    )
    walls = _walls(length, width, foot, height - 0.5, thing.colour)
    pieces = [Piece(join([walls, _bare(top)]), textures.facade(thing.variant))]
    if foot:
        across = (max(round(length / 12), 1), max(round(width / 12), 1))
        pieces.append(Piece(_band(length, width, 0.0, foot, (222, 216, 208), across, 1.0), textures.SHOP))
    return pieces


def tower(thing: StaticObject) -> list[Piece]:
    """A high-rise: a wide foot, a shaft, a set-back top."""
    length, width, height = thing.size
    foot, crown = 0.12 * height, 0.88 * height
    roofs = join(
        [
            _slab(length, width, foot, (110, 110, 108)),
            _slab(0.9 * length, 0.9 * width, crown, (110, 110, 108)),
            _slab(0.6 * length, 0.6 * width, height, (100, 100, 100)),
        ]
    )
    shaft = _walls(0.9 * length, 0.9 * width, foot, crown, thing.colour)
    return [
        Piece(_walls(length, width, 0.0, foot, shade(thing.colour, 0.8)), textures.facade(6)),
        Piece(join([shaft, _bare(roofs)]), textures.facade(thing.variant)),
        Piece(_walls(0.6 * length, 0.6 * width, crown, height, thing.colour), textures.facade(3)),
    ]


def house(thing: StaticObject) -> list[Piece]:
    """Walls with windows under a tiled roof whose ridge runs along x, and a chimney.

    The roof is a closed prism that stands out over the walls: no gap lets the sky show between them.
    """
    length, width, height = thing.size
    eaves = 0.58 * height
    x, y = length / 2, width / 2
    slopes = quads(
        [
            [(-x, -y, eaves), (x, -y, eaves), (x, 0, height), (-x, 0, height)],
            [(-x, y, eaves), (x, y, eaves), (x, 0, height), (-x, 0, height)],
        ],
        _ROOFS[thing.variant % len(_ROOFS)],
        (0, 0, eaves),
    )
    slopes.uv[:] *= np.array([length / 3, 2.0], np.float32)
    gables = quads(
        [[(end, -y, eaves), (end, y, eaves), (end, 0, height), (end, 0, height)] for end in (x, -x)],
        thing.colour,
        (0, 0, eaves),
    )
    underside = quads(
        [[(-x, -y, eaves), (x, -y, eaves), (x, y, eaves), (-x, y, eaves)]], shade(thing.colour, 0.8), (0, 0, height)
    )
    low, high = (0.2 * length, 0.1 * width, 0.75 * height), (0.2 * length + 0.6, 0.1 * width + 0.6, height)
    chimney = box(low, high, (120, 70, 58), "front back left right top")
    walls = _walls(0.96 * length, 0.92 * width, 0.0, eaves, thing.colour)
    plain = _bare(join([gables, underside, chimney]))
    return [
        Piece(join([walls, plain]), textures.facade((1, 4, 7, 1)[thing.variant % 4])),
        Piece(slopes, textures.TILES),
    ]


def shed(thing: StaticObject) -> list[Piece]:
    """A hall of corrugated sheet with a low roof and a gate."""
    length, width, height = thing.size
    x, y, eaves = length / 2, width / 2, 0.78 * height
    walls = _band(length, width, 0.0, eaves, thing.colour, (max(round(length / 4), 1), max(round(width / 4), 1)), 1.0)
    roof = quads(
        [
            [(-x, -y, eaves), (x, -y, eaves), (x, 0, height), (-x, 0, height)],
            [(-x, y, eaves), (x, y, eaves), (x, 0, height), (-x, 0, height)],
        ],
        shade(thing.colour, 0.75),
        (0, 0, eaves),
    )
    roof.uv[:] *= np.array([length / 4, 1.0], np.float32)
    ends = quads(
        [[(s * x, -y, eaves), (s * x, y, eaves), (s * x, 0, height), (s * x, 0, height)] for s in (1, -1)],
        shade(thing.colour, 0.9),
        (0, 0, eaves),
    )
    gate = join(
        box(
            (s * x - 0.04, -0.2 * y - 1.5, 0),
            (s * x + 0.04, 1.5 + 0.2 * y, 0.6 * eaves),
            (90, 92, 96),
            "front back top",
        )
        for s in (1, -1)
    )
    return [Piece(walls, textures.SHEET), Piece(roof, textures.SHEET), Piece(join([ends, gate]))]


def kiosk(thing: StaticObject) -> list[Piece]:
    """A hut with a counter towards +x and an awning roof."""
    length, width, height = thing.size
    x, y = length / 2, width / 2
    counter = quads(
        [
            [
                (x + 0.01, -0.8 * y, 0.42 * height),
                (x + 0.01, 0.8 * y, 0.42 * height),
                (x + 0.01, 0.8 * y, 0.8 * height),
                (x + 0.01, -0.8 * y, 0.8 * height),
            ]
        ],
        (52, 50, 48),
        (0, 0, height),
    )
    hut = box((-x, -y, 0), (x, y, 0.86 * height), thing.colour)
    roof = box((-1.1 * x, -1.1 * y, 0.86 * height), (1.2 * x, 1.1 * y, height), shade(thing.colour, 0.6))
    return [Piece(join([hut, roof, counter]))]


def _bare(mesh: Mesh) -> Mesh:
    """The mesh as part of a facade without windows."""
    mesh.uv[:] = textures.PLAIN_WALL
    return mesh


def _walls(length: float, width: float, low: float, high: float, colour: Colour) -> Mesh:
    """Four walls whose texture repeats in whole bays and floors."""
    bays = (max(round(length / _BAY), 1) / textures.BAYS, max(round(width / _BAY), 1) / textures.BAYS)
    return _band(length, width, low, high, colour, bays, max(round((high - low) / _FLOOR), 1) / textures.FLOORS)


def _band(
    length: float, width: float, low: float, high: float, colour: Colour, across: tuple[float, float], up: float
) -> Mesh:
    x, y = length / 2, width / 2
    band = box((-x, -y, low), (x, y, high), colour, "left right front back")
    repeats = np.repeat(np.array([across[0], across[0], across[1], across[1]], np.float32), 4)
    band.uv[:, 0] *= repeats
    band.uv[:, 1] *= up
    return band


def _slab(length: float, width: float, z: float, colour: Colour) -> Mesh:
    x, y = length / 2, width / 2
    return quads([[(-x, -y, z), (x, -y, z), (x, y, z), (-x, y, z)]], colour, (0, 0, z - 1))


def _parapet(length: float, width: float, low: float, high: float, colour: Colour) -> Mesh:
    x, y = length / 2, width / 2
    return box((-x, -y, low), (x, y, high), colour, "left right front back")
