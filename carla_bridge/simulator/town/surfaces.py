"""The flat part of the town: ground, pavements, carriageways and everything painted on them."""

import itertools
from collections.abc import Iterable
from math import pi

import numpy as np

from carla_bridge.simulator.catalogue.kinds import SURFACE_TAGS, SurfaceKind
from carla_bridge.simulator.scene import Surface
from carla_bridge.simulator.town.path import Floats, Path
from carla_bridge.simulator.town.road_layout import (
    COLUMNS,
    CORNER,
    MEDIAN,
    ROWS,
    half_carriageway,
    junction_reach,
    row_kind,
)
from carla_bridge.simulator.town.road_network import Junction, LaneType, Road, RoadKind, RoadNetwork
from carla_bridge.simulator.town.road_signals import STOP_LINE

WORLD_BOUNDS = (-1100.0, -900.0, 1100.0, 600.0)
"""x and y of the north-west and south-east corners of the ground."""
TILE = 100.0
LINE = 0.14
CROSSING_NEAR, CROSSING_FAR = 0.6, 3.6
"""Where a crossing begins and ends, measured from the edge of its junction inwards."""


def strip(path: Path, left: float, right: float, kind: SurfaceKind) -> list[Surface]:
    """The band between two offsets to the right of a path, as quads short enough to follow its bends."""
    sharpest = max(abs(piece.curvature) for piece in path.segments)
    poses = path.every(min(30.0, 0.08 / sharpest) if sharpest > 0 else 30.0)
    side = np.column_stack((-np.sin(poses[:, 2]), np.cos(poses[:, 2])))
    inner, outer = poses[:, :2] + left * side, poses[:, :2] + right * side
    corners = np.stack((inner[:-1], inner[1:], outer[1:], outer[:-1]), axis=1)
    return [surface(kind, quad) for quad in corners]


def dashes(path: Path, offset: float, dash: float, gap: float, width: float) -> list[Surface]:
    """A broken white line."""
    line = path.offset(offset)
    starts = np.arange(gap / 2, line.length - dash, dash + gap)
    poses = line.sample(np.column_stack((starts, starts + dash)).ravel())
    side = np.column_stack((-np.sin(poses[:, 2]), np.cos(poses[:, 2]))) * width / 2
    inner, outer = poses[:, :2] - side, poses[:, :2] + side
    return [
        surface(SurfaceKind.LINE_WHITE, np.stack((inner[i], inner[i + 1], outer[i + 1], outer[i])))
        for i in range(0, len(poses), 2)
    ]


def surface(kind: SurfaceKind, points: Floats) -> Surface:
    return Surface(kind.value, points, int(SURFACE_TAGS[kind]))


def rectangle(kind: SurfaceKind, x0: float, y0: float, x1: float, y1: float) -> list[Surface]:
    """An upright rectangle in tiles, because large quads shade badly."""
    xs = np.linspace(x0, x1, max(2, int(np.ceil((x1 - x0) / TILE)) + 1))
    ys = np.linspace(y0, y1, max(2, int(np.ceil((y1 - y0) / TILE)) + 1))
    return [
        surface(kind, np.array([[a, c], [b, c], [b, d], [a, d]]))
        for a, b in itertools.pairwise(xs)
        for c, d in itertools.pairwise(ys)
    ]


def network_surfaces(network: RoadNetwork) -> list[Surface]:
    """Ground, roads, junctions and markings in painter's order."""
    pieces = rectangle(SurfaceKind.GRASS, *WORLD_BOUNDS)
    for road in network.roads.values():
        if road.junction is None:
            pieces += _road(road)
    for junction in network.junctions.values():
        at_grid = _grid_place(junction)
        pieces += _fan(network, junction) if at_grid is None else _crossroads(network, junction, at_grid[1])
    return pieces


def in_painters_order(surfaces: Iterable[Surface]) -> list[Surface]:
    """Sorted by kind, in the order of `SurfaceKind`."""
    rank = {kind.value: number for number, kind in enumerate(SurfaceKind)}
    return sorted(surfaces, key=lambda piece: rank[piece.kind])


def _road(road: Road) -> list[Surface]:
    base = SurfaceKind.HIGHWAY if road.kind is RoadKind.HIGHWAY else SurfaceKind.CARRIAGEWAY
    looks = {
        LaneType.DRIVING: base,
        LaneType.PARKING: SurfaceKind.PARKING,
        LaneType.SIDEWALK: SurfaceKind.PAVEMENT,
        LaneType.SHOULDER: SurfaceKind.SHOULDER,
    }
    pieces: list[Surface] = []
    path = road.reference
    for _, lane, offset in road.cross_section():
        pieces += strip(path, offset - lane.width / 2, offset + lane.width / 2, looks[lane.type])
    for sign, side in ((1, road.right), (-1, road.left)):
        pieces += _side_markings(road, sign, [lane.width for lane in side if lane.type is LaneType.DRIVING])
    if road.left:
        pieces += strip(path, -LINE / 2, LINE / 2, SurfaceKind.LINE_YELLOW)
    return pieces


def _side_markings(road: Road, sign: int, widths: list[float]) -> list[Surface]:
    fast = road.kind is RoadKind.HIGHWAY
    pieces: list[Surface] = []
    edge = 0.0
    for width in widths[:-1]:
        edge += width
        dash, gap = (6.0, 9.0) if fast else (3.0, 6.0)
        pieces += dashes(road.reference, sign * edge, dash, gap, 0.2 if fast else LINE)
    outer = sign * sum(widths)
    line = 0.25 if fast else LINE
    if widths:
        pieces += strip(road.reference, outer - line / 2, outer + line / 2, SurfaceKind.LINE_WHITE)
    if fast:
        pieces += strip(road.reference, 0.2, 0.2 + line, SurfaceKind.LINE_WHITE)
    return pieces


def _grid_place(junction: Junction) -> tuple[int, int] | None:
    if junction.x in COLUMNS and junction.y in ROWS:
        return COLUMNS.index(junction.x), ROWS.index(junction.y)
    return None


def _crossroads(network: RoadNetwork, junction: Junction, row: int) -> list[Surface]:
    x, y = junction.x, junction.y
    reach = junction_reach(row)
    half = half_carriageway(RoadKind.STREET), half_carriageway(row_kind(row))
    pieces = rectangle(SurfaceKind.CARRIAGEWAY, x - reach[0], y - reach[1], x + reach[0], y + reach[1])
    arms = {_direction(network.roads[road], junction): network.roads[road] for road in junction.arms}
    for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        pieces.append(_corner(x, y, reach, (dx - dy, dx + dy)))
        axis = 0 if dx else 1
        arm = arms.get((dx, dy))
        if arm is None:
            across = (-reach[1 - axis], reach[1 - axis])
            away = (half[axis], reach[axis])
            pieces.append(_span(x, y, (dx, dy), away, across, SurfaceKind.CORNER))
        elif junction.has_lights:
            kerb = arm.half_width(LaneType.DRIVING, LaneType.PARKING, LaneType.SHOULDER)
            pieces.append(_stop_line(arm, x, y, (dx, dy), reach[axis]))
            if arm.kind is not RoadKind.RAMP:
                pieces += _zebra(x, y, (dx, dy), reach[axis], kerb)
    return pieces


def _direction(road: Road, junction: Junction) -> tuple[int, int]:
    """Unit vector from the junction into the road."""
    here = road.reference.starts()[0 if road.start_junction == junction.id else -1]
    dx, dy = here[1] - junction.x, here[2] - junction.y
    return (int(np.sign(dx)), 0) if abs(dx) > abs(dy) else (0, int(np.sign(dy)))


def _span(
    x: float,
    y: float,
    out: tuple[int, int],
    away: tuple[float, float],
    across: tuple[float, float],
    kind: SurfaceKind,
) -> Surface:
    """A quad that spans `away` in direction `out` from (x, y), and `across` to the right of that."""
    dx, dy = out
    corners = [(away[0], across[0]), (away[1], across[0]), (away[1], across[1]), (away[0], across[1])]
    return surface(kind, np.array([[x + a * dx - b * dy, y + a * dy + b * dx] for a, b in corners]))


def _corner(x: float, y: float, reach: tuple[float, float], quadrant: tuple[int, int]) -> Surface:
    """The rounded pavement in one quadrant of a junction: a quarter disc about the junction's own corner."""
    cx, cy = x + quadrant[0] * reach[0], y + quadrant[1] * reach[1]
    angles = np.linspace(0.0, pi / 2, 9)
    arc = np.column_stack((cx - quadrant[0] * CORNER * np.cos(angles), cy - quadrant[1] * CORNER * np.sin(angles)))
    return surface(SurfaceKind.CORNER, np.vstack(([[cx, cy]], arc)))


def _stop_line(arm: Road, x: float, y: float, out: tuple[int, int], reach: float) -> Surface:
    """Across the approaching lanes, which are on the left when one leaves on this arm."""
    width = arm.half_width(LaneType.DRIVING)
    return _span(x, y, out, (reach + STOP_LINE - 0.4, reach + STOP_LINE), (-width + 0.1, -0.2), SurfaceKind.LINE_WHITE)


def _zebra(x: float, y: float, out: tuple[int, int], reach: float, kerb: float) -> list[Surface]:
    away = (reach - CROSSING_FAR, reach - CROSSING_NEAR)
    return [
        _span(x, y, out, away, (aside, aside + 0.5), SurfaceKind.CROSSING)
        for aside in np.arange(-kerb + 0.4, kerb - 0.6, 1.0)
    ]


def _fan(network: RoadNetwork, junction: Junction) -> list[Surface]:
    """The widening between a ramp and the highway, with the turning place of the left lanes."""
    roads = [network.roads[road] for road in junction.arms]
    ramp = next(road for road in roads if road.kind is RoadKind.RAMP)
    onto = next(r for r in roads if r.kind is RoadKind.HIGHWAY and r.start_junction == junction.id)
    narrow = ramp.reference.x if ramp.start_junction == junction.id else ramp.reference.end[0]
    wide = onto.reference.x
    inner = ramp.half_width(LaneType.DRIVING, LaneType.SHOULDER)
    outer = MEDIAN / 2 + onto.half_width(LaneType.DRIVING, LaneType.SHOULDER)
    outline = np.array([[narrow, -inner], [narrow, inner], [wide, outer], [wide, -outer]])
    pieces = [surface(SurfaceKind.CARRIAGEWAY, outline)]
    for turn in junction.turns:
        road = network.roads[turn.connecting[0]]
        for edge in (0.0, road.right[0].width):
            pieces += strip(road.reference, edge - LINE / 2, edge + LINE / 2, SurfaceKind.LINE_WHITE)
    return pieces
