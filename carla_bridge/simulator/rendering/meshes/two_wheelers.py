"""Motorbikes and bicycles, each with its rider apart, because CARLA tags riders on their own."""

from collections.abc import Sequence
from math import cos, pi, sin

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, box, disc, join, shade, tube
from carla_bridge.simulator.rendering.meshes.people import Clothes, rider
from carla_bridge.simulator.rendering.meshes.wheels import TYRE, thin_wheel

Extent = tuple[float, float, float]
_STEEL: Colour = (90, 92, 96)
_RED: Colour = (200, 24, 24)
_HELMETS: tuple[Colour, ...] = ((230, 230, 230), (30, 30, 34), (190, 40, 40), (40, 80, 170))


def motorbike(extent: Extent, paint: Colour, clothes: Clothes, near: bool) -> tuple[Mesh, Mesh]:
    """The machine and its rider."""
    x, y, z = extent
    top = 2 * z
    radius = 0.3
    rear, front = -x + radius, x - radius
    seat, tank = 0.5 * top, 0.58 * top
    grip = (front - 0.28, 0.64 * top)
    machine = [
        thin_wheel(rear, radius, 0.16, TYRE, _STEEL, near),
        thin_wheel(front, radius, 0.12, TYRE, _STEEL, near),
        box((rear + 0.1, -0.13, 0.28), (front - 0.35, 0.13, 0.3 * top), _STEEL),
        _slab((-0.15, front - 0.3), (0.3 * top, tank), 0.14, paint),
        _slab((rear - 0.12, -0.1), (seat - 0.12, seat), 0.13, (34, 32, 32)),
        _slab((rear - 0.14, rear + 0.25), (seat - 0.26, seat - 0.1), 0.1, paint),
        tube((front, 0.08, radius), (grip[0] + 0.06, 0.08, grip[1]), (0.035, 0.035), _STEEL, 4),
        tube((front, -0.08, radius), (grip[0] + 0.06, -0.08, grip[1]), (0.035, 0.035), _STEEL, 4),
        tube((grip[0], -y, grip[1]), (grip[0], y, grip[1]), (0.025, 0.025), TYRE, 4),
        disc((grip[0] + 0.16, 0, grip[1] - 0.1), 0.11, (1, 0, 0), (240, 240, 225), 8),
        box((rear - 0.16, -0.08, seat - 0.2), (rear - 0.13, 0.08, seat - 0.1), _RED),
        _slab((grip[0] - 0.02, grip[0] + 0.15), (grip[1] - 0.25, grip[1] + 0.04), 0.12, paint),
        box((rear - 0.05, -0.2, 0.22), (0.1, -0.14, 0.32), (150, 150, 154)),
    ]
    helmet = _HELMETS[sum(clothes.top) % len(_HELMETS)]
    person = rider((-0.22, seat), grip, (0.05, 0.3), top, y, clothes, 0.0, helmet, near)
    return join(machine), person


def bicycle(extent: Extent, paint: Colour, clothes: Clothes, spin: float, near: bool) -> tuple[Mesh, Mesh]:
    """The bicycle and its rider, whose feet turn with `spin`."""
    x, y, z = extent
    top, radius = 2 * z, 0.34
    rear, front = -x + radius, x - radius
    saddle, crank, head = (-0.2, 0.53 * top), (-0.03, 0.3), (front - 0.14, 0.54 * top)
    wheels = [_ring(rear, radius, near), _ring(front, radius, near)]
    pipes = [
        ((rear, radius), crank),
        ((rear, radius), (saddle[0] - 0.02, saddle[1] - 0.12)),
        (crank, saddle),
        (crank, (head[0] + 0.02, head[1] - 0.12)),
        ((saddle[0] + 0.04, saddle[1] - 0.1), (head[0], head[1] - 0.06)),
        ((front, radius), (head[0], head[1] + 0.06)),
    ]
    frame = [tube((a, 0, b), (c, 0, d), (0.024, 0.024), paint, 4) for (a, b), (c, d) in pipes]
    grip = (head[0] + 0.02, head[1] + 0.08)
    fittings = [
        tube((grip[0], -min(y, 0.27), grip[1]), (grip[0], min(y, 0.27), grip[1]), (0.02, 0.02), TYRE, 4),
        box((saddle[0] - 0.12, -0.07, saddle[1]), (saddle[0] + 0.12, 0.07, saddle[1] + 0.05), (40, 34, 32)),
        box((rear - 0.02, -0.04, 0.66), (rear + 0.02, 0.04, 0.72), _RED),
    ]
    seat = (saddle[0], saddle[1] + 0.08)
    person = rider(seat, grip, crank, top, min(y, 0.27), clothes, spin, shade(paint, 1.2), near)
    return join([*wheels, *frame, *fittings]), person


def _slab(along: tuple[float, float], up: tuple[float, float], half: float, colour: Colour) -> Mesh:
    return box((along[0], -half, up[0]), (along[1], half, up[1]), colour)


def _ring(x: float, radius: float, near: bool) -> Mesh:
    """A thin tyre that one can see through."""
    sides = 12 if near else 8
    corners: list[Sequence[float]] = [
        (x + radius * cos(2 * pi * k / sides), 0.0, radius + radius * sin(2 * pi * k / sides)) for k in range(sides)
    ]
    thick = 0.026 if near else 0.03
    return join(tube(a, b, (thick, thick), TYRE, 3) for a, b in zip(corners, corners[1:] + corners[:1], strict=True))
