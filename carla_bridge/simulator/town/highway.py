"""The highway's surroundings: guard rails, gantries, fields, woods, barns, and noise walls towards the city."""

from math import cos, degrees, sin

import numpy as np

from carla_bridge.simulator.catalogue.kinds import POSTERS, ObjectKind, SurfaceKind
from carla_bridge.simulator.town.path import Floats, Path
from carla_bridge.simulator.town.road_layout import COLUMNS, HIGHWAY_SIDE, MEDIAN, ROWS, highway_centre
from carla_bridge.simulator.town.scenery import Scenery
from carla_bridge.simulator.town.surfaces import WORLD_BOUNDS, rectangle

STEEL = (150, 154, 158)
GANTRY_GREY = (120, 124, 128)
CARRIAGEWAY = sum(lane.width for lane in HIGHWAY_SIDE)
VERGE = MEDIAN / 2 + CARRIAGEWAY
"""From the middle of the median to the outer edge of the hard shoulder."""


def line_highway(scenery: Scenery) -> None:
    """Furnish the median and both verges."""
    centre = highway_centre()
    _rails(centre, scenery)
    _median(centre, scenery)
    for path in (centre, centre.reversed()):
        _gantries(path, scenery)
        _verge(path, scenery)
    _noise_wall(centre, scenery)


def open_land(scenery: Scenery) -> None:
    """Fields, woods, lone trees and barns wherever neither city nor highway is."""
    road = highway_centre().every(10.0)[:, :2]
    fields = 0
    while fields < 60:
        x, y = _somewhere(scenery)
        half_x, half_y = scenery.between(25, 70), scenery.between(20, 50)
        if _free(x, y, road, 35 + max(half_x, half_y), 15 + max(half_x, half_y)):
            scenery.surfaces += rectangle(SurfaceKind.FIELD, x - half_x, y - half_y, x + half_x, y + half_y)
            fields += 1
    for _ in range(160):
        x, y = _somewhere(scenery)
        conifers = scenery.random.random() < 0.5
        for _ in range(9):
            place = (x + scenery.between(-18, 18), y + scenery.between(-18, 18))
            if _free(*place, road, 34, 38):
                scenery.tree(*place, 1.3, conifer=conifers)
    for _ in range(16):
        x, y = _somewhere(scenery)
        if _free(x, y, road, 45, 60):
            size = (scenery.between(14, 26), scenery.between(10, 14), scenery.between(6, 9))
            scenery.house(ObjectKind.SHED if scenery.random.random() < 0.6 else ObjectKind.HOUSE, x, y, size)


def _rails(centre: Path, scenery: Scenery) -> None:
    for offset in (-VERGE - 0.6, -MEDIAN / 2 + 0.8, MEDIAN / 2 - 0.8, VERGE + 0.6):
        rail = centre.offset(offset)
        poses = rail.sample(np.arange(4.0, rail.length - 3.0, 8.0))
        for x, y, yaw, _ in poses:
            size = (8.05, 0.3, 0.8)
            scenery.add(ObjectKind.GUARD_RAIL, x, y, size, yaw=degrees(yaw), colour=STEEL)


def _median(centre: Path, scenery: Scenery) -> None:
    for s in np.arange(14.0, centre.length - 12.0, 9.0):
        x, y, _yaw = _place(centre, s, scenery.between(-3.5, 3.5))
        if scenery.random.random() < 0.75:
            scenery.bush(x, y)
        else:
            scenery.tree(x, y, 0.6, conifer=scenery.random.random() < 0.4)


def _gantries(path: Path, scenery: Scenery) -> None:
    """Frames over one carriageway, with panels above its lanes."""
    middle = MEDIAN / 2 + CARRIAGEWAY / 2
    for number, s in enumerate(np.arange(90.0, path.length - 60.0, 420.0)):
        x, y, yaw = _place(path, s, middle)
        span = CARRIAGEWAY + 2.6
        scenery.add(ObjectKind.GANTRY, x, y, (0.5, span, 6.6), yaw=degrees(yaw) + 180, colour=GANTRY_GREY)
        for aside in (-3.6, 3.0):
            px, py = x - aside * sin(yaw) - 0.4 * cos(yaw), y + aside * cos(yaw) - 0.4 * sin(yaw)
            scenery.add(
                ObjectKind.GANTRY_SIGN,
                px,
                py,
                (0.15, 5.2, 2.3),
                yaw=degrees(yaw) + 180,
                z=5.1,
                variant=number % 2,
                object_id=scenery.next_id,
            )
            scenery.next_id += 1


def _verge(path: Path, scenery: Scenery) -> None:
    for s in np.arange(25.0, path.length - 20.0, 50.0):
        x, y, _ = _place(path, s, VERGE + 1.3)
        scenery.add(ObjectKind.POLE, x, y, (0.12, 0.12, 1.0), colour=(235, 235, 235))
    for s in np.arange(10.0, path.length - 10.0, 13.0):
        if scenery.random.random() < 0.55:
            x, y, _ = _place(path, s, VERGE + scenery.between(6, 22))
            if scenery.random.random() < 0.4:
                scenery.bush(x, y)
            else:
                scenery.tree(x, y, 1.15, conifer=scenery.random.random() < 0.45)
    for s in np.arange(160.0, path.length - 60.0, 310.0):
        x, y, yaw = _place(path, s, VERGE + 9.0)
        poster = scenery.whole(POSTERS)
        scenery.add(ObjectKind.BILLBOARD, x, y, (0.4, 9.0, 8.0), yaw=degrees(yaw) + 165, variant=poster)
    for s in np.arange(6.0, path.length - 6.0, 12.0):
        x, y, yaw = _place(path, s, VERGE + 24.0)
        scenery.add(ObjectKind.FENCE, x, y, (12.0, 0.08, 1.2), yaw=degrees(yaw), colour=(140, 126, 106))


def _noise_wall(centre: Path, scenery: Scenery) -> None:
    """On the city's side of the long northern stretch."""
    for x, y, yaw, _ in centre.offset(-VERGE - 4.5).every(8.0):
        if COLUMNS[0] < x < COLUMNS[-1] and y < ROWS[0] - 100:
            scenery.add(ObjectKind.NOISE_WALL, x, y, (8.0, 0.3, 3.4), yaw=degrees(yaw), colour=(134, 128, 112))


def _somewhere(scenery: Scenery) -> tuple[float, float]:
    x0, y0, x1, y1 = WORLD_BOUNDS
    return scenery.between(x0 + 60, x1 - 60), scenery.between(y0 + 60, y1 - 60)


def _free(x: float, y: float, road: Floats, from_highway: float, from_city: float) -> bool:
    outside_x = max(COLUMNS[0] - x, x - COLUMNS[-1])
    outside_y = max(ROWS[0] - y, y - ROWS[-1])
    near_ramp = abs(y) < from_highway and abs(x) < 480
    away = float(np.min(np.hypot(road[:, 0] - x, road[:, 1] - y)))
    return max(outside_x, outside_y) > from_city and away > from_highway and not near_ramp


def _place(path: Path, s: float, right: float) -> tuple[float, float, float]:
    x, y, yaw, _ = path.sample(np.array([float(s)]))[0]
    return float(x - right * sin(yaw)), float(y + right * cos(yaw)), float(yaw)
