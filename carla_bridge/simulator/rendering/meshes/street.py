"""Posts, lamps and furniture of the street."""

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, Piece, box, join, quads, shade, tube
from carla_bridge.simulator.scene import StaticObject

_POSTERS: tuple[tuple[Colour, Colour], ...] = (
    ((206, 48, 44), (250, 236, 200)),
    ((34, 92, 168), (240, 240, 240)),
    ((240, 196, 60), (60, 40, 120)),
    ((46, 140, 110), (250, 250, 240)),
)


def lamp(thing: StaticObject) -> list[Piece]:
    """A tapering post, an arm along +y and a luminaire at its end."""
    reach, height = thing.size[1], thing.size[2]
    post = tube((0, 0, 0), (0, 0, height - 0.1), (0.1, 0.06), thing.colour, 6)
    arm = tube((0, 0, height - 0.15), (0, reach, height - 0.06), (0.05, 0.04), thing.colour, 4)
    head = box((-0.14, reach - 0.55, height - 0.12), (0.14, reach, height), shade(thing.colour, 0.8))
    glow = quads(
        [
            [
                (-0.1, reach - 0.5, height - 0.13),
                (0.1, reach - 0.5, height - 0.13),
                (0.1, reach - 0.05, height - 0.13),
                (-0.1, reach - 0.05, height - 0.13),
            ]
        ],
        (255, 236, 190),
        (0, reach - 0.3, height),
    )
    return [Piece(join([post, arm, head])), Piece(glow, shining=True)]


def traffic_light_pole(thing: StaticObject) -> list[Piece]:
    """A post and an arm along +y at the top."""
    reach, height = thing.size[1], thing.size[2]
    post = tube((0, 0, 0), (0, 0, height), (0.11, 0.09), thing.colour, 6)
    arm = tube((0, 0, height - 0.12), (0, reach, height - 0.08), (0.08, 0.05), thing.colour, 5)
    return [Piece(join([post, arm] if reach > 0.3 else [post]))]


def pole(thing: StaticObject) -> list[Piece]:
    """A thin post."""
    radius = max(max(thing.size[:2]) / 2, 0.03)
    height = thing.size[2]
    post = tube((0, 0, 0), (0, 0, height), (radius, radius), thing.colour, 5)
    return [Piece(post)]


def gantry(thing: StaticObject) -> list[Piece]:
    """Two legs and a lattice beam across the carriageway."""
    length, width, height = thing.size
    half, deep = width / 2, max(min(length / 2, 0.4), 0.15)
    beam_low = height - 0.9
    parts = [box((-deep, s * half - 0.22, 0), (deep, s * half + 0.22, height), thing.colour) for s in (1, -1)]
    for z in (beam_low, height - 0.16):
        parts.append(box((-deep, -half, z), (deep, half, z + 0.16), thing.colour))
    count = max(int(width / 2.5), 2)
    for number in range(count):
        y = -half + (number + 0.5) * width / count
        parts.append(tube((0, y - 0.6, beam_low + 0.1), (0, y + 0.6, height - 0.1), (0.06, 0.06), thing.colour, 4))
    return [Piece(join(parts))]


def bench(thing: StaticObject) -> list[Piece]:
    """A seat with a back, facing +x."""
    length, width, height = thing.size
    x, y = length / 2, width / 2
    seat = 0.5 * height
    parts = [
        box((-x, -y, seat - 0.06), (x, y, seat), thing.colour),
        box((-x, -y, seat + 0.1), (-x + 0.08, y, height), thing.colour),
        *(box((-x, s * 0.8 * y - 0.04, 0), (x, s * 0.8 * y + 0.04, seat), (60, 60, 62)) for s in (1, -1)),
    ]
    return [Piece(join(parts))]


def litter_bin(thing: StaticObject) -> list[Piece]:
    """A round bin with a dark mouth."""
    radius, height = min(thing.size[:2]) / 2, thing.size[2]
    body = tube((0, 0, 0), (0, 0, 0.86 * height), (0.85 * radius, radius), thing.colour, 7)
    lid = tube((0, 0, 0.86 * height), (0, 0, height), (radius, 0.3 * radius), shade(thing.colour, 0.6), 7)
    return [Piece(join([body, lid]))]


def hydrant(thing: StaticObject) -> list[Piece]:
    """A stout post with two arms."""
    radius, height = min(thing.size[:2]) / 2, thing.size[2]
    body = tube((0, 0, 0), (0, 0, 0.8 * height), (0.7 * radius, 0.65 * radius), thing.colour, 6)
    cap = tube((0, 0, 0.8 * height), (0, 0, height), (0.75 * radius, 0.2 * radius), shade(thing.colour, 0.85), 6)
    arms = box(
        (-0.2 * radius, -radius, 0.55 * height), (0.2 * radius, radius, 0.68 * height), shade(thing.colour, 0.85)
    )
    return [Piece(join([body, cap, arms]))]


def bus_shelter(thing: StaticObject) -> list[Piece]:
    """Glass at the back and the ends, a flat roof, a seat and a poster."""
    length, width, height = thing.size
    x, y, top = length / 2, width / 2, 0.92 * height
    glass = (150, 176, 186)
    parts = [
        box((-x, -y, top), (x, y, height), (70, 74, 80)),
        box((-x, -y, 0.15), (-x + 0.06, y, top), glass),
        box((-x, -y, 0.15), (0.3 * x, -y + 0.06, top), glass),
        box((-x, y - 0.06, 0.15), (0.3 * x, y, top), _POSTERS[thing.variant % 4][0]),
        box((-x + 0.1, -0.8 * y, 0.42), (-x + 0.5, 0.5 * y, 0.5), (110, 84, 60)),
        *(box((x - 0.1, s * y - 0.05 * s - 0.05, 0), (x, s * y - 0.05 * s + 0.05, top), (70, 74, 80)) for s in (1, -1)),
    ]
    return [Piece(join(parts))]


def billboard(thing: StaticObject) -> list[Piece]:
    """A poster in the upper two thirds, on posts, facing +x."""
    length, width, height = thing.size
    x, y, low = length / 2, width / 2, height / 3
    ground, ink = _POSTERS[thing.variant % len(_POSTERS)]
    span = height - low
    parts = [
        *(box((-0.12, s * 0.7 * y - 0.12, 0), (0.12, s * 0.7 * y + 0.12, low), (96, 96, 98)) for s in (1, -1)),
        box((-x, -y, low), (x, y, height), (104, 104, 106)),
        _poster(x + 0.02, (-0.96 * y, 0.96 * y), (low + 0.04 * span, height - 0.04 * span), ground),
        _poster(x + 0.05, (-0.8 * y, 0.1 * y), (low + 0.55 * span, low + 0.8 * span), ink),
        _poster(x + 0.05, (-0.8 * y, 0.6 * y), (low + 0.22 * span, low + 0.4 * span), ink),
        _poster(x + 0.05, (0.35 * y, 0.82 * y), (low + 0.5 * span, low + 0.86 * span), shade(ground, 0.6)),
    ]
    return [Piece(join(parts))]


def _poster(x: float, across: tuple[float, float], up: tuple[float, float], colour: Colour) -> Mesh:
    (y0, y1), (z0, z1) = across, up
    return quads([[(x, y0, z0), (x, y1, z0), (x, y1, z1), (x, y0, z1)]], colour, (x - 1, y0, z0))
