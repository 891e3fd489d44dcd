"""The walkers' navigation mesh: pavements and crossings in Detour's binary format, which the client walks on.

CARLA's client moves walkers itself: it asks the server for a mesh, runs a crowd simulation on it and sends back
the walkers' poses. One tile holds all polygons; a polygon's neighbours are those that share both ends of an edge.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from carla_bridge.simulator.town.blocks import Block, city_blocks
from carla_bridge.simulator.town.road_layout import SIDEWALK

SIDEWALK_AREA, CROSSWALK_AREA = 1, 2
FLAGS = {SIDEWALK_AREA: 0x02, CROSSWALK_AREA: 0x04}
FROM_KERB, FROM_WALLS = 1.0, 0.7
"""Metres of the pavement that walkers leave free for lamps and trees, and for benches and hedges."""
CROSSING = (4.2, 6.6)
"""Where a crossing begins and ends, measured along the kerb from the corner of the block."""
MAGIC_SET = ord("M") << 24 | ord("S") << 16 | ord("E") << 8 | ord("T")
MAGIC_TILE = ord("D") << 24 | ord("N") << 16 | ord("A") << 8 | ord("V")
MOST_POLYGONS_BITS = 12
CORNERS = 6
"""Detour's limit of corners per polygon."""

Point = tuple[float, float]


@dataclass
class _Mesh:
    """Convex polygons with shared corners."""

    places: dict[Point, int] = field(default_factory=dict)
    polygons: list[tuple[tuple[int, ...], int]] = field(default_factory=list)

    def add(self, corners: Sequence[Point], area: int) -> None:
        """Corners in either order; they are stored in the one that Detour expects."""
        twice_area = sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, [*corners[1:], corners[0]], strict=True))
        ordered = corners if twice_area < 0 else corners[::-1]
        indices = tuple(self.places.setdefault((round(x, 3), round(y, 3)), len(self.places)) for x, y in ordered)
        self.polygons.append((indices, area))


def navigation_mesh() -> bytes:
    """The file that the client asks for as "Nav"."""
    mesh = _Mesh()
    blocks = {(block.column, block.row): block for block in city_blocks()}
    for (column, row), block in blocks.items():
        _pavement(mesh, block)
        right, below = blocks.get((column + 1, row)), blocks.get((column, row + 1))
        if right is not None:
            for start, end in _landings(block.y0, block.y1):
                x0, x1 = block.x1 + _outer(), right.x0 - _outer()
                mesh.add([(x0, start), (x0, end), (x1, end), (x1, start)], CROSSWALK_AREA)
        if below is not None:
            for start, end in _landings(block.x0, block.x1):
                y0, y1 = block.y1 + _outer(), below.y0 - _outer()
                mesh.add([(start, y0), (end, y0), (end, y1), (start, y1)], CROSSWALK_AREA)
    tile = _tile(mesh)
    x0, y0, _, _ = _bounds(mesh)
    head = struct.pack("<iii", MAGIC_SET, 1, 1)
    head += struct.pack("<5fii", x0, -1.0, y0, 10000.0, 10000.0, 1, 1 << MOST_POLYGONS_BITS)
    return head + struct.pack("<Ii", 1 << MOST_POLYGONS_BITS, len(tile)) + tile


def _outer() -> float:
    return SIDEWALK.width - FROM_KERB


def _landings(low: float, high: float) -> list[tuple[float, float]]:
    """The two stretches of a block's side where crossings end."""
    kerb_low, kerb_high = low - SIDEWALK.width, high + SIDEWALK.width
    return [
        (kerb_low + CROSSING[0], kerb_low + CROSSING[1]),
        (kerb_high - CROSSING[1], kerb_high - CROSSING[0]),
    ]


def _pavement(mesh: _Mesh, block: Block) -> None:
    """A ring round the block, cut where crossings end, with its corners cut off."""
    outer, inner = _outer(), FROM_WALLS
    for y, out in ((block.y0, -1), (block.y1, 1)):
        _side(mesh, _landings(block.x0, block.x1), lambda s, d, y=y, out=out: (s, y + out * d))  # type: ignore[misc]
    for x, out in ((block.x0, -1), (block.x1, 1)):
        _side(mesh, _landings(block.y0, block.y1), lambda s, d, x=x, out=out: (x + out * d, s))  # type: ignore[misc]
    along = CROSSING[0] - SIDEWALK.width
    for x, sx in ((block.x0, 1), (block.x1, -1)):
        for y, sy in ((block.y0, 1), (block.y1, -1)):
            one, two = (x - sx * outer, y + sy * along), (x + sx * along, y - sy * outer)
            middle = ((one[0] + two[0]) / 2, (one[1] + two[1]) / 2)
            notch = (x - sx * inner, y - sy * inner)
            mesh.add([one, middle, notch, (x - sx * inner, y + sy * along)], SIDEWALK_AREA)
            mesh.add([middle, two, (x + sx * along, y - sy * inner), notch], SIDEWALK_AREA)


def _side(mesh: _Mesh, landings, place) -> None:  # type: ignore[no-untyped-def]
    (a, b), (c, d) = landings
    for start, end in ((a, b), (b, c), (c, d)):
        corners = [
            place(start, FROM_WALLS),
            place(end, FROM_WALLS),
            place(end, _outer()),
            place(start, _outer()),
        ]
        mesh.add(corners, SIDEWALK_AREA)


def _bounds(mesh: _Mesh) -> tuple[float, float, float, float]:
    xs, ys = [x for x, _ in mesh.places], [y for _, y in mesh.places]
    return min(xs), min(ys), max(xs), max(ys)


def _tile(mesh: _Mesh) -> bytes:
    """One Detour tile: header, corners, polygons, room for links, and the triangles of the flat surface."""
    owners: dict[tuple[int, int], int] = {}
    for number, (corners, _) in enumerate(mesh.polygons):
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            owners[a, b] = number
    polygons, details, triangles = b"", b"", b""
    edges = 0
    for corners, area in mesh.polygons:
        neighbours = [owners.get((b, a), -1) + 1 for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)]
        edges += sum(neighbour > 0 for neighbour in neighbours)
        padding = [0] * (CORNERS - len(corners))
        polygons += struct.pack("<I", 0xFFFFFFFF) + struct.pack("<6H", *corners, *padding)
        polygons += struct.pack("<6HHBB", *neighbours, *padding, FLAGS[area], len(corners), area)
        details += struct.pack("<IIBBxx", 0, len(triangles) // 4, 0, len(corners) - 2)
        for corner in range(1, len(corners) - 1):
            # two bits per edge of the triangle say whether it is one of the polygon's
            outline = (corner == 1) | 1 << 2 | (corner == len(corners) - 2) << 4
            triangles += struct.pack("<4B", 0, corner, corner + 1, outline)
    verts = b"".join(struct.pack("<3f", x, 0.0, y) for x, y in mesh.places)
    x0, y0, x1, y1 = _bounds(mesh)
    count = len(mesh.polygons)
    header = struct.pack(
        "<5iI9i",
        MAGIC_TILE,
        7,
        0,
        0,
        0,
        0,
        count,
        len(mesh.places),
        edges,
        count,
        0,
        len(triangles) // 4,
        0,
        0,
        count,
    )
    header += struct.pack("<3f3f3ff", 1.8, 0.3, 0.5, x0, -1.0, y0, x1, 3.0, y1, 1 / 0.3)
    links = b"\0" * (12 * edges)
    return header + verts + polygons + links + details + triangles
