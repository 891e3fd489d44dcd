"""Traffic lights and signs: what faces the driver faces +x."""

from collections.abc import Sequence

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, Piece, box, disc, join, quads
from carla_bridge.simulator.scene import StaticObject

RED, YELLOW, GREEN, OFF = range(4)
"""CARLA's states of a traffic light; every light has one look per state."""
_LIT: tuple[Colour, ...] = ((255, 40, 30), (255, 196, 30), (40, 255, 120))
_UNLIT: tuple[Colour, ...] = ((58, 18, 16), (58, 44, 14), (14, 52, 28))
_BACK: Colour = (132, 134, 136)
_WHITE: Colour = (242, 242, 240)
_INK: Colour = (24, 24, 26)
_GROUNDS: tuple[Colour, ...] = ((16, 112, 66), (24, 72, 156))

_SEGMENTS = {
    "0": "abcdef",
    "1": "bc",
    "2": "abged",
    "3": "abgcd",
    "4": "fgbc",
    "5": "afgcd",
    "6": "afgedc",
    "7": "abc",
    "8": "abcdefg",
    "9": "abcdfg",
}


def traffic_light(thing: StaticObject, state: int) -> list[Piece]:
    """A dark head with three lamps under visors, red on top, before a backing board."""
    length, width, height = thing.size
    x, y = length / 2, width / 2
    case = (30, 32, 33)
    parts = [
        box((-x, -0.72 * y, 0.03 * height), (0.5 * x, 0.72 * y, 0.97 * height), case),
        box((-0.15 * x, -y, 0), (0.15 * x, y, height), (16, 17, 18)),
    ]
    lamps: list[Mesh] = []
    for number in range(3):
        z = height * (0.83 - 0.33 * number)
        radius = min(0.14 * height, 0.6 * y)
        shining = number == state
        lamp = disc((0.55 * x, 0, z), radius, (1, 0, 0), _LIT[number] if shining else _UNLIT[number], 10)
        (lamps if shining else parts).append(lamp)
        visor = box((0.5 * x, -radius, z + 0.9 * radius), (x, radius, z + 1.05 * radius), case, "top bottom front")
        parts.append(visor)
    pieces = [Piece(join(parts))]
    return [*pieces, Piece(join(lamps), shining=True)] if lamps else pieces


def speed_sign(thing: StaticObject, near: bool) -> list[Piece]:
    """A round plate with a red rim and the limit."""
    radius = min(thing.size[1], thing.size[2]) / 2
    middle = thing.size[2] / 2
    parts = [
        disc((0, 0, middle), radius, (-1, 0, 0), _BACK, 12),
        disc((0, 0, middle), radius, (1, 0, 0), (206, 24, 30), 14),
        disc((0.015, 0, middle), 0.74 * radius, (1, 0, 0), _WHITE, 12),
    ]
    if near:
        parts.append(_number(str(thing.variant), middle, radius))
    return [Piece(join(parts))]


def direction_sign(thing: StaticObject, near: bool) -> list[Piece]:
    """A coloured board with a white edge, lines of text and an arrow."""
    _, width, height = thing.size
    y, front = width / 2, thing.size[0] / 2
    ground = _GROUNDS[thing.variant % len(_GROUNDS)]
    board = box((-front, -y, 0), (front, y, height), _BACK, "left right top bottom back")
    parts = [board, _face(front, (-y, y), (0, height), _WHITE)]
    edge = 0.04 * min(width, height)
    parts.append(_face(front + 0.02, (-y + edge, y - edge), (edge, height - edge), ground))
    if near:
        for row, share in ((0.68, 0.5), (0.42, 0.62), (0.16, 0.4)):
            span = (-0.86 * y, (-0.86 + 1.2 * share) * y)
            parts.append(_face(front + 0.04, span, (row * height, (row + 0.15) * height), _WHITE))
        parts.append(_arrow(front + 0.04, 0.6 * y, 0.5 * height, 0.26 * min(width, height)))
    return [Piece(join(parts))]


def _number(digits: str, middle: float, radius: float) -> Mesh:
    """Black digits, read from +x (so they run towards -y)."""
    tall, wide = 0.62 * radius, (0.42 if len(digits) < 3 else 0.3) * radius
    stroke = 0.13 * radius
    step = wide + 0.16 * radius
    start = 0.5 * step * (len(digits) - 1)
    strokes = []
    for place, digit in enumerate(digits):
        centre = start - place * step
        left, right = centre + wide / 2, centre - wide / 2
        top, bottom = middle + tall / 2, middle - tall / 2
        bars = {
            "a": (left, right, top - stroke, top),
            "g": (left, right, middle - stroke / 2, middle + stroke / 2),
            "d": (left, right, bottom, bottom + stroke),
            "f": (left, left - stroke, middle, top),
            "b": (right + stroke, right, middle, top),
            "e": (left, left - stroke, bottom, middle),
            "c": (right + stroke, right, bottom, middle),
        }
        for name in _SEGMENTS[digit]:
            y0, y1, z0, z1 = bars[name]
            strokes.append(_face(0.03, (y0, y1), (z0, z1), _INK))
    return join(strokes)


def _arrow(x: float, y: float, z: float, size: float) -> Mesh:
    shaft = _face(x, (y - 0.16 * size, y + 0.16 * size), (z - size, z + 0.2 * size), _WHITE)
    head = [
        [(x, y - 0.6 * size, z + 0.1 * size), (x, y + 0.6 * size, z + 0.1 * size), (x, y, z + size), (x, y, z + size)]
    ]
    return join([shaft, quads(head, _WHITE, (x - 1, y, z))])


def _face(x: float, across: Sequence[float], up: Sequence[float], colour: Colour) -> Mesh:
    (y0, y1), (z0, z1) = across, up
    return quads([[(x, y0, z0), (x, y1, z0), (x, y1, z1), (x, y0, z1)]], colour, (x - 1, y0, z0))
