"""Trucks and buses."""

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, box, join, quads, shade
from carla_bridge.simulator.rendering.meshes.cars import GLASS, PLASTIC, WINDSCREEN
from carla_bridge.simulator.rendering.meshes.wheels import car_wheel

Extent = tuple[float, float, float]


def truck(extent: Extent, paint: Colour, cargo: Colour, cab_share: float, near: bool) -> tuple[Mesh, dict[str, Mesh]]:
    """A cab and a cargo box on a dark frame."""
    x, y, z = extent
    height, radius = 2 * z, min(0.5, 0.34 * z)
    cab_rear = x - 2 * x * cab_share
    body = [
        box((-x, -0.8 * y, 0.75 * radius), (x - 0.3, 0.8 * y, 1.5 * radius), PLASTIC, "front back left right"),
        box((-x, -y, 1.5 * radius), (cab_rear - 0.15, y, height), cargo, "front back left right top"),
        _cab(cab_rear, x, 0.97 * y, 0.7 * radius, 0.9 * height, paint),
    ]
    axles = [x - 0.62 * (x - cab_rear), -0.5 * x, -0.74 * x] if x > 3 else [x - 0.6 * (x - cab_rear), -0.6 * x]
    body += [car_wheel(axle, side * y, radius, 0.3, near) for axle in axles for side in (1, -1)]
    if near:
        doors = shade(cargo, 0.8)
        body.append(_panel(-x - 0.005, (-0.02, 0.02), (1.6 * radius, 0.97 * height), doors))
        body.append(_panel(-x - 0.005, (-0.9 * y, 0.9 * y), (0.8 * radius, 1.2 * radius), PLASTIC))
        body += [
            _side(side * (y + 0.005), (-0.9 * x, 0.2 * x), (0.5 * height, 0.58 * height), doors) for side in (1, -1)
        ]
    return join(body), _lamps(x, y, 1.0 * radius, 1.45 * radius)


def fire_engine(extent: Extent, paint: Colour, near: bool) -> tuple[Mesh, dict[str, Mesh]]:
    """A truck with silver shutters, a ladder and blue lamps."""
    x, y, z = extent
    low = 0.9
    engine, lamps = truck((x, y, low * z), paint, paint, 0.3, near)
    height, top = 2 * low * z, 2 * z
    extras = [
        box((-0.95 * x, -0.3 * y, height + 0.03), (0.6 * x, 0.3 * y, 0.5 * (height + top)), (170, 172, 175)),
        box((0.68 * x, -0.55 * y, 0.9 * height), (0.74 * x, 0.55 * y, top), (40, 70, 220)),
    ]
    if near:
        for side in (1, -1):
            for start in (-0.9, -0.55, -0.2):
                span = (start * x, (start + 0.3) * x)
                extras.append(_side(side * (y + 0.01), span, (0.28 * height, 0.62 * height), (178, 182, 186)))
            extras.append(
                _side(side * (y + 0.01), (-0.95 * x, 0.95 * x), (0.7 * height, 0.75 * height), (235, 225, 90))
            )
    return join([engine, *extras]), lamps


def bus(extent: Extent, paint: Colour, near: bool) -> tuple[Mesh, dict[str, Mesh]]:
    """A long body with a band of windows, doors on the right and a line sign."""
    x, y, z = extent
    height, radius = 2 * z, 0.46
    low, sill, head = 0.12 * height, 0.42 * height, 0.84 * height
    body = [
        box((-x, -y, low), (x, y, sill), paint, "front back left right"),
        box((-x, -y, head), (x, y, height), shade(paint, 1.05), "front back left right top"),
        quads([[(x, -y, sill), (x, y, sill), (x, y, head), (x, -y, head)]], WINDSCREEN, (0, 0, sill)),
        quads([[(-x, -y, sill), (-x, y, sill), (-x, y, head), (-x, -y, head)]], GLASS, (0, 0, sill)),
    ]
    windows = 7
    step = 2 * x / windows
    for side in (1, -1):
        for number in range(windows):
            start = -x + number * step
            body.append(_side(side * y, (start, start + 0.12 * step), (sill, head), paint))
            body.append(_side(side * y, (start + 0.12 * step, start + step), (sill, head), GLASS))
    body += [car_wheel(axle, side * y, radius, 0.3, near) for axle in (0.62 * x, -0.55 * x) for side in (1, -1)]
    if near:
        for start in (0.74, -0.05):
            body.append(_side(y + 0.01, (start * x, (start + 0.18) * x), (low + 0.1, head), (58, 66, 76)))
        body.append(_panel(x + 0.005, (-0.6 * y, 0.6 * y), (0.87 * height, 0.96 * height), (240, 170, 40)))
        body.append(_panel(x + 0.005, (-0.9 * y, 0.9 * y), (low, low + 0.12), PLASTIC))
    return join(body), _lamps(x, y, low + 0.2, low + 0.45)


def _cab(rear: float, front: float, half: float, low: float, top: float, paint: Colour) -> Mesh:
    """A cab-over cabin with a slightly raked windscreen."""
    sill, head = low + 0.48 * (top - low), low + 0.9 * (top - low)
    back = front - 0.12
    sides = []
    for side in (1, -1):
        y = side * half
        door = rear + 0.3 * (front - rear)
        sides += [
            (_quad_y(y, (rear, front), (low, sill)), paint),
            (_quad_y(y, (rear, door), (sill, head)), paint),
            ([(door, y, sill), (front, y, sill), (back, y, head), (door, y, head)], GLASS),
            (_quad_y(y, (rear, back), (head, top)), paint),
        ]
    fronts = [
        ([(front, -half, low), (front, half, low), (front, half, sill), (front, -half, sill)], paint),
        ([(front, -half, sill), (front, half, sill), (back, half, head), (back, -half, head)], WINDSCREEN),
        ([(back, -half, head), (back, half, head), (back, half, top), (back, -half, top)], paint),
        ([(rear, -half, top), (back, -half, top), (back, half, top), (rear, half, top)], shade(paint, 1.05)),
        ([(rear, -half, low), (rear, half, low), (rear, half, top), (rear, -half, top)], shade(paint, 0.8)),
        (
            [
                (front + 0.004, -0.7 * half, low + 0.1),
                (front + 0.004, 0.7 * half, low + 0.1),
                (front + 0.004, 0.7 * half, sill - 0.25),
                (front + 0.004, -0.7 * half, sill - 0.25),
            ],
            PLASTIC,
        ),
    ]
    inside = ((rear + front) / 2, 0, (low + top) / 2)
    both = sides + fronts
    return quads([corners for corners, _ in both], [colour for _, colour in both], inside)


def _lamps(x: float, y: float, low: float, high: float) -> dict[str, Mesh]:
    lamps: dict[str, Mesh] = {
        "head": join(_panel(x + 0.008, _span(s, 0.62 * y, 0.92 * y), (low, high), (236, 236, 226)) for s in (1, -1)),
        "tail": join(_panel(-x - 0.008, _span(s, 0.7 * y, 0.95 * y), (low, high), (150, 16, 18)) for s in (1, -1)),
    }
    for name, side in (("right", 1), ("left", -1)):
        lamps[name] = join(
            _panel(end, _span(side, 0.9 * y, 0.98 * y), (low, high), (226, 130, 30)) for end in (x + 0.01, -x - 0.01)
        )
    return lamps


def _panel(x: float, across: tuple[float, float], up: tuple[float, float], colour: Colour) -> Mesh:
    (y0, y1), (z0, z1) = across, up
    return quads([[(x, y0, z0), (x, y1, z0), (x, y1, z1), (x, y0, z1)]], colour, (0, 0, z0))


def _side(y: float, along: tuple[float, float], up: tuple[float, float], colour: Colour) -> Mesh:
    return quads([_quad_y(y, along, up)], colour, ((along[0] + along[1]) / 2, 0, up[0]))


def _quad_y(y: float, along: tuple[float, float], up: tuple[float, float]) -> list[tuple[float, float, float]]:
    (x0, x1), (z0, z1) = along, up
    return [(x0, y, z0), (x1, y, z0), (x1, y, z1), (x0, y, z1)]


def _span(side: int, inner: float, outer: float) -> tuple[float, float]:
    low, high = sorted((side * inner, side * outer))
    return low, high
