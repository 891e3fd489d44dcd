"""The city's blocks: the rectangles between the streets, what stands on them, and the belt of houses round the city."""

import itertools
from dataclasses import dataclass

import numpy as np

from carla_bridge.simulator.catalogue.kinds import POSTERS, ObjectKind, SurfaceKind
from carla_bridge.simulator.town.road_layout import COLUMNS, ROWS, SIDEWALK, half_carriageway, row_kind
from carla_bridge.simulator.town.road_network import RoadKind
from carla_bridge.simulator.town.scenery import GREENS, Scenery
from carla_bridge.simulator.town.surfaces import rectangle

_CENTRE = ("towers", "flats", "towers", "flats", "square")
_OUTSKIRTS = ("flats", "houses", "houses", "park", "market", "flats")


@dataclass(frozen=True)
class Block:
    """Ground inside the pavements; `column` and `row` count from the north-west."""

    column: int
    row: int
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2


def city_blocks() -> list[Block]:
    """All blocks, row by row."""
    aside = half_carriageway(RoadKind.STREET) + SIDEWALK.width
    blocks: list[Block] = []
    for row in range(len(ROWS) - 1):
        top = ROWS[row] + half_carriageway(row_kind(row)) + SIDEWALK.width
        bottom = ROWS[row + 1] - half_carriageway(row_kind(row + 1)) - SIDEWALK.width
        for column in range(len(COLUMNS) - 1):
            left, right = COLUMNS[column] + aside, COLUMNS[column + 1] - aside
            blocks.append(Block(column, row, left, top, right, bottom))
    return blocks


def fill_block(block: Block, scenery: Scenery) -> None:
    """Tall in the middle of the city, low at its edge; every block gets its own character."""
    central = block.column in (1, 2) and block.row in (1, 2)
    character = str(scenery.random.choice(_CENTRE if central else _OUTSKIRTS))
    {
        "towers": _towers,
        "flats": _flats,
        "square": _park,
        "houses": _houses,
        "park": _park,
        "market": _market,
    }[character](block, scenery)


def belt(scenery: Scenery) -> None:
    """Houses and gardens on the outer side of the outermost streets, except where the ramps leave."""
    aside = half_carriageway(RoadKind.STREET) + SIDEWALK.width
    left, right = COLUMNS[0] - aside, COLUMNS[-1] + aside
    top, bottom = ROWS[0] - aside, ROWS[-1] + aside
    for x in np.arange(left, right, 21.0):
        for y, outward in ((top, -1), (bottom, 1)):
            _plot(x + 10, y, (0, outward), scenery)
    for y in np.arange(top + 10, bottom - 10, 21.0):
        if abs(y + 10) > 32:
            for x, outward in ((left, -1), (right, 1)):
                _plot(x, y + 10, (outward, 0), scenery)


def _plot(x: float, y: float, out: tuple[int, int], scenery: Scenery) -> None:
    """One house with a garden behind a hedge or fence; (x, y) is the middle of its front."""
    long = scenery.between(9, 13)
    deep = scenery.between(8, 10)
    back = 5.0 + deep / 2
    size = (long, deep, scenery.between(5.5, 9.0)) if out[1] else (deep, long, scenery.between(5.5, 9.0))
    tall = scenery.random.random() < 0.25
    kind = ObjectKind.BUILDING if tall else ObjectKind.HOUSE
    if tall:
        size = (size[0], size[1], scenery.between(9, 16))
    scenery.house(kind, x + out[0] * back, y + out[1] * back, size)
    across = 0.0 if out[1] else 90.0
    for side in (-6.2, 6.2):
        if scenery.random.random() < 0.5:
            place = (x + side * abs(out[1]) + out[0] * 0.6, y + side * abs(out[0]) + out[1] * 0.6)
            scenery.add(ObjectKind.HEDGE, *place, (6.5, 0.7, 1.1), yaw=across, colour=scenery.pick(GREENS))
        else:
            place = (x + side * abs(out[1]) + out[0] * 0.4, y + side * abs(out[0]) + out[1] * 0.4)
            scenery.add(ObjectKind.FENCE, *place, (6.5, 0.08, 1.0), yaw=across, colour=(150, 130, 105))
    for depth in (2.6, back + deep / 2 + 4.0):
        shift = scenery.between(-8, 8)
        scenery.tree(x + shift * abs(out[1]) + out[0] * depth, y + shift * abs(out[0]) + out[1] * depth, 0.8)


def _flats(block: Block, scenery: Scenery) -> None:
    """Buildings side by side round a yard."""
    scenery.surfaces += rectangle(SurfaceKind.PLAZA, block.x0, block.y0, block.x1, block.y1)
    deep = scenery.between(12, 15)
    for y in (block.y0 + deep / 2 + 0.6, block.y1 - deep / 2 - 0.6):
        for start, end in _cuts(block.x0 + 0.6, block.x1 - 0.6, 11, 21, scenery):
            size = (end - start - scenery.between(0.0, 0.6), deep, scenery.between(10, 28))
            scenery.house(ObjectKind.BUILDING, (start + end) / 2, y, size)
    for x in (block.x0 + deep / 2 + 0.6, block.x1 - deep / 2 - 0.6):
        for start, end in _cuts(block.y0 + deep + 2, block.y1 - deep - 2, 11, 19, scenery):
            if scenery.random.random() < 0.8:
                size = (deep, end - start - scenery.between(0.0, 0.6), scenery.between(9, 24))
                scenery.house(ObjectKind.BUILDING, x, (start + end) / 2, size)
            else:
                scenery.tree(x, (start + end) / 2)
    cx, cy = block.centre
    for _ in range(4):
        scenery.tree(cx + scenery.between(-9, 9), cy + scenery.between(-7, 7))


def _towers(block: Block, scenery: Scenery) -> None:
    """High-rises on a paved square with trees and seats."""
    scenery.surfaces += rectangle(SurfaceKind.PLAZA, block.x0, block.y0, block.x1, block.y1)
    wide, deep = (block.x1 - block.x0) / 2, (block.y1 - block.y0) / 2
    for i in (0, 1):
        for j in (0, 1):
            x, y = block.x0 + (i + 0.5) * wide, block.y0 + (j + 0.5) * deep
            size = (scenery.between(0.5, 0.68) * wide, scenery.between(0.5, 0.68) * deep, scenery.between(28, 75))
            scenery.house(ObjectKind.TOWER, x, y, size)
    cx, cy = block.centre
    for offset in np.arange(-wide + 5, wide - 4, 9.0):
        scenery.tree(cx + offset, cy, 0.75)
        scenery.add(ObjectKind.BENCH, cx + offset + 4, cy + 1.5, (0.6, 1.6, 0.8), yaw=90, colour=(110, 82, 58))
    for x in (block.x0 + 2, block.x1 - 2):
        scenery.add(ObjectKind.KIOSK, x, cy, (2.6, 3.2, 2.7), colour=(60, 90, 80))


def _houses(block: Block, scenery: Scenery) -> None:
    """Detached houses with gardens, back to back."""
    scenery.surfaces += rectangle(SurfaceKind.LAWN, block.x0, block.y0, block.x1, block.y1)
    for start, end in _cuts(block.x0 + 1, block.x1 - 1, 17, 22, scenery):
        for y, inward in ((block.y0, 1), (block.y1, -1)):
            _plot((start + end) / 2, y, (0, inward), scenery)
    for _ in range(10):
        x = scenery.between(block.x0 + 3, block.x1 - 3)
        scenery.tree(x, block.centre[1] + scenery.between(-7, 7), 0.9, conifer=scenery.random.random() < 0.3)


def _park(block: Block, scenery: Scenery) -> None:
    """Lawn, trees, paths, benches."""
    scenery.surfaces += rectangle(SurfaceKind.LAWN, block.x0, block.y0, block.x1, block.y1)
    cx, cy = block.centre
    scenery.surfaces += rectangle(SurfaceKind.PAVEMENT, block.x0, cy - 1.5, block.x1, cy + 1.5)
    scenery.surfaces += rectangle(SurfaceKind.PAVEMENT, cx - 1.5, block.y0, cx + 1.5, block.y1)
    for x in np.arange(block.x0 + 4, block.x1 - 3, 8.5):
        for y in np.arange(block.y0 + 4, block.y1 - 3, 8.5):
            if min(abs(x - cx), abs(y - cy)) > 3.5 and scenery.random.random() < 0.72:
                place = (x + scenery.between(-2, 2), y + scenery.between(-2, 2))
                scenery.tree(*place, 1.1, conifer=scenery.random.random() < 0.2)
    for x in np.arange(block.x0 + 6, block.x1 - 5, 12.0):
        scenery.add(ObjectKind.BENCH, x, cy + 2.2, (0.6, 1.6, 0.8), yaw=-90, colour=(110, 82, 58))
        scenery.bush(x + 3, cy - 3)
    scenery.add(ObjectKind.KIOSK, cx + 6, cy + 6, (3.2, 3.2, 2.9), colour=(120, 70, 50))


def _market(block: Block, scenery: Scenery) -> None:
    """A supermarket behind its car park."""
    scenery.surfaces += rectangle(SurfaceKind.LAWN, block.x0, block.y0, block.x1, block.y1)
    middle = block.centre[1]
    scenery.surfaces += rectangle(SurfaceKind.PARKING, block.x0 + 3, block.y0 + 3, block.x1 - 3, middle)
    deep = block.y1 - middle - 6
    size = (block.x1 - block.x0 - 14, deep, scenery.between(6.5, 9.0))
    scenery.house(ObjectKind.SHED, block.centre[0], middle + 2 + deep / 2, size)
    for y, yaw in ((block.y0 + 7, 90.0), (middle - 4.5, -90.0)):
        for x in np.arange(block.x0 + 6, block.x1 - 6, 2.9):
            if scenery.random.random() < 0.55:
                scenery.parked_car(x, y, yaw)
    for x in np.arange(block.x0 + 6, block.x1 - 4, 11.0):
        scenery.tree(x, block.y0 + 1.6, 0.7)
        scenery.bush(x + 5, block.y0 + 1.4)
    poster = scenery.whole(POSTERS)
    scenery.add(ObjectKind.BILLBOARD, block.x0 + 1.5, middle, (0.3, 5.0, 6.0), yaw=180, variant=poster)


def _cuts(start: float, end: float, least: float, most: float, scenery: Scenery) -> list[tuple[float, float]]:
    """A stretch divided into pieces of random length between `least` and `most`."""
    if end - start < least:
        return []
    count = max(1, round((end - start) / scenery.between(least, most)))
    weights = scenery.random.uniform(0.75, 1.25, count)
    bounds = start + (end - start) * np.concatenate(([0.0], np.cumsum(weights) / weights.sum()))
    return [(float(a), float(b)) for a, b in itertools.pairwise(bounds)]
