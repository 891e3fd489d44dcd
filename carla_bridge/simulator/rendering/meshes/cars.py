"""Cars and vans: a lower body lofted along the car, a glass house on top, wheels and lamps.

A style is a handful of fractions of length and height; the body fills its bounding box exactly, so that projected
boxes and masks agree.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, box, join, polygon, quads, rings, shade
from carla_bridge.simulator.rendering.meshes.wheels import car_wheel

GLASS: Colour = (40, 48, 58)
WINDSCREEN: Colour = (66, 78, 92)
PLASTIC: Colour = (38, 38, 41)


@dataclass(frozen=True)
class CarStyle:
    """Proportions; x runs from -0.5 (tail) to 0.5 (nose), heights from 0 to 1."""

    cowl: float
    """x where the windscreen meets the bonnet."""
    roof_front: float
    roof_rear: float
    tail: float
    """x where the rear window meets the boot."""
    bonnet: float
    """Height of the nose."""
    belt: float
    """Height of the window sill."""
    boot: float
    """Height of the boot at the very rear."""
    panes: tuple[tuple[float, float], ...] = ((0.05, 0.45), (0.51, 0.9))
    """Side windows as shares of the glass house, from front to rear."""
    roof_width: float = 0.76
    wheel: float = 0.225
    """Wheel radius by height."""


SEDAN = CarStyle(0.22, 0.06, -0.2, -0.36, 0.5, 0.6, 0.6)
HATCHBACK = CarStyle(0.24, 0.1, -0.32, -0.47, 0.52, 0.6, 0.56)
SUV = CarStyle(0.22, 0.1, -0.4, -0.48, 0.56, 0.6, 0.56, roof_width=0.82, wheel=0.215)
COUPE = CarStyle(0.18, 0.02, -0.14, -0.42, 0.48, 0.6, 0.58, panes=((0.08, 0.62),))
JEEP = CarStyle(0.12, 0.07, -0.46, -0.48, 0.56, 0.6, 0.58, roof_width=0.92, wheel=0.22)
MICRO = CarStyle(0.36, 0.16, -0.28, -0.48, 0.42, 0.52, 0.5, panes=((0.12, 0.8),), wheel=0.19)
WEDGE = CarStyle(0.36, 0.06, 0.0, -0.46, 0.5, 0.56, 0.56, panes=((0.2, 0.7),), wheel=0.22)
VAN = CarStyle(0.41, 0.28, -0.46, -0.492, 0.42, 0.5, 0.5, panes=((0.06, 0.26),), roof_width=0.88, wheel=0.135)
BUSLET = CarStyle(
    0.47,
    0.38,
    -0.44,
    -0.49,
    0.46,
    0.54,
    0.5,
    panes=((0.06, 0.28), (0.33, 0.6), (0.65, 0.93)),
    roof_width=0.86,
    wheel=0.165,
)


@dataclass(frozen=True)
class Trim:
    """What sets one model apart from another of the same style."""

    roof_box: tuple[Colour, Colour] | None = None
    """Left and right half of a light bar, or of a taxi sign."""
    stripe: Colour | None = None


def car(
    extent: tuple[float, float, float], style: CarStyle, paint: Colour, trim: Trim, near: bool
) -> tuple[Mesh, dict[str, Mesh]]:
    """The car, and its lamps by name: they are drawn on their own because they may shine."""
    length, width, height = 2 * extent[0], 2 * extent[1], 2 * extent[2]
    top = height * (0.93 if trim.roof_box else 1.0)
    half = width / 2
    parts = [_lower_body(length, half, top, style, paint, near), _glass_house(length, half, top, style, paint, near)]
    radius = style.wheel * height
    for x in (0.31 * length, -0.29 * length):
        for side in (1.0, -1.0):
            parts.append(car_wheel(x, side * half, radius, 0.2, near))
            if near:
                parts.append(_arch(x, side * 0.991 * half, radius))
    if trim.roof_box:
        left, right = trim.roof_box
        x0, x1, reach = -0.06 * length, 0.0, 0.5 * half
        parts.append(box((x0, -reach, top), (x1, 0, height), left, "front back left top"))
        parts.append(box((x0, 0, top), (x1, reach, height), right, "front back right top"))
    if trim.stripe and near:
        for side in (1.0, -1.0):
            y = side * 0.995 * half
            z0, z1 = 0.4 * top, 0.5 * top
            parts.append(
                quads(
                    [[(-0.2 * length, y, z0), (0.2 * length, y, z0), (0.2 * length, y, z1), (-0.2 * length, y, z1)]],
                    trim.stripe,
                    (0, 0, z0),
                )
            )
    if near:
        parts.append(_fittings(length, half, top, style, paint))
    return join(parts), _lamps(length, half, top, style)


def _lower_body(length: float, half: float, top: float, style: CarStyle, paint: Colour, near: bool) -> Mesh:
    sill, waist = 0.15 * top, 0.42 * top
    stations = [  # x, share of the width, height of the upper edge
        (-0.5, 0.86, style.boot - 0.02),
        (-0.465, 0.97, style.boot),
        (style.tail, 0.985, style.belt),
        (style.cowl, 0.985, style.belt),
        (0.42, 0.97, style.bonnet + 0.03),
        (0.5, 0.82, style.bonnet - 0.04),
    ]
    if not near:
        stations = [stations[0], stations[2], stations[3], stations[5]]
    sections = []
    for x, share, edge in stations:
        belt = share * half * 0.95
        middle = share * half
        low = sill if abs(x) < 0.48 else 1.35 * sill
        ring = [(-0.94 * middle, low), (-middle, waist), (-belt, edge * top)]
        if not near:
            ring = [ring[0], ring[2]]
        ring += [(-y, z) for y, z in reversed(ring)]
        sections.append([(x * length, y, z) for y, z in ring])
    dark = shade(paint, 0.72)
    bright = shade(paint, 1.06)
    colours = np.array([dark, paint, bright, paint, dark] if near else [shade(paint, 0.9), bright, shade(paint, 0.9)])
    skin = rings(sections, np.tile(colours, (len(sections) - 1, 1, 1)), (0, 0, waist), closed=False)
    rear = polygon(sections[0], paint, (-1, 0, 0))
    nose = polygon(sections[-1], paint, (1, 0, 0))
    return join([skin, rear, nose])


def _glass_house(length: float, half: float, top: float, style: CarStyle, paint: Colour, near: bool) -> Mesh:
    belt, roof = 0.935 * half, style.roof_width * half
    sill = style.belt * top
    x = {name: getattr(style, name) * length for name in ("cowl", "roof_front", "roof_rear", "tail")}
    inside = (0, 0, 0.8 * top)
    screen = [
        (x["cowl"], -belt, sill),
        (x["cowl"], belt, sill),
        (x["roof_front"], roof, top),
        (x["roof_front"], -roof, top),
    ]
    rear = [
        (x["tail"], -belt, sill),
        (x["tail"], belt, sill),
        (x["roof_rear"], roof, top),
        (x["roof_rear"], -roof, top),
    ]
    lid = [
        (x["roof_front"], -roof, top),
        (x["roof_front"], roof, top),
        (x["roof_rear"], roof, top),
        (x["roof_rear"], -roof, top),
    ]
    panes = style.panes if near else [(style.panes[0][0], style.panes[-1][1])]
    cuts = sorted({0.0, 1.0, *(edge for pane in panes for edge in pane)})
    corners, colours = [], []
    for start, end in pairwise(cuts):
        glazed = any(a <= start and end <= b for a, b in panes)
        low = [x["cowl"] + t * (x["tail"] - x["cowl"]) for t in (start, end)]
        high = [x["roof_front"] + t * (x["roof_rear"] - x["roof_front"]) for t in (start, end)]
        for side in (1, -1):
            corners.append(
                [
                    (low[0], side * belt, sill),
                    (low[1], side * belt, sill),
                    (high[1], side * roof, top),
                    (high[0], side * roof, top),
                ]
            )
            colours.append(GLASS if glazed else paint)
    return join(
        [
            quads([screen, rear, lid], [WINDSCREEN, GLASS, shade(paint, 1.05)], inside),
            quads(corners, colours, inside),
        ]
    )


def _arch(x: float, y: float, radius: float) -> Mesh:
    angle = np.linspace(0, np.pi, 8)
    rim = np.stack([x + 1.22 * radius * np.cos(angle), np.full(8, y), radius + 1.22 * radius * np.sin(angle)], 1)
    return polygon(rim, (20, 20, 22), (0, 1 if y > 0 else -1, 0))


def _fittings(length: float, half: float, top: float, style: CarStyle, paint: Colour) -> Mesh:
    """Grille, bumpers, number plates, mirrors, rear edge: what tells front from rear."""
    nose, tail = 0.5 * length + 0.004, -0.5 * length - 0.004
    hood, boot = (style.bonnet - 0.04) * top, (style.boot - 0.02) * top
    parts = [
        _plate(nose, (-0.42 * half, 0.42 * half), (0.58 * hood, 0.82 * hood), (26, 26, 28)),
        _plate(nose, (-0.74 * half, 0.74 * half), (0.26 * top, 0.3 * top), PLASTIC),
        _plate(tail, (-0.78 * half, 0.78 * half), (0.24 * top, 0.31 * top), PLASTIC),
        _plate(nose + 0.004, (-0.25, 0.25), (0.32 * top, 0.32 * top + 0.11), (225, 225, 220)),
        _plate(tail - 0.004, (-0.25, 0.25), (0.66 * boot, 0.66 * boot + 0.11), (225, 225, 220)),
    ]
    z, x = style.belt * top, (style.cowl - 0.03) * length
    for side in (1, -1):
        y0, y1 = sorted((side * 0.9 * half, side * half))
        parts.append(box((x - 0.08, y0, z), (x + 0.08, y1, z + 0.13), shade(paint, 0.9)))
    return join(parts)


def _plate(x: float, across: tuple[float, float], up: tuple[float, float], colour: Colour) -> Mesh:
    (y0, y1), (z0, z1) = across, up
    return quads([[(x, y0, z0), (x, y1, z0), (x, y1, z1), (x, y0, z1)]], colour, (0, 0, z0))


def _lamps(length: float, half: float, top: float, style: CarStyle) -> dict[str, Mesh]:
    """Head, tail and brake lamps and indicators, in the colour of their glass; the caller lights them."""
    nose, tail = 0.5 * length + 0.006, -0.5 * length - 0.006
    front_z = ((style.bonnet - 0.17) * top, (style.bonnet - 0.07) * top)
    rear_z = ((style.boot - 0.17) * top, (style.boot - 0.05) * top)
    head, rear, amber = (236, 236, 226), (150, 16, 18), (226, 130, 30)
    lamps = {
        "head": join(_plate(nose, _span(s, 0.44 * half, 0.79 * half), front_z, head) for s in (1, -1)),
        "tail": join(_plate(tail, _span(s, 0.5 * half, 0.82 * half), rear_z, rear) for s in (1, -1)),
    }
    for name, side in (("right", 1), ("left", -1)):
        lamps[name] = join(
            [
                _plate(nose + 0.003, _span(side, 0.72 * half, 0.8 * half), front_z, amber),
                _plate(tail - 0.003, _span(side, 0.74 * half, 0.83 * half), rear_z, amber),
            ]
        )
    return lamps


def _span(side: int, inner: float, outer: float) -> tuple[float, float]:
    low, high = sorted((side * inner, side * outer))
    return low, high
