"""What runs along roads: rails, walls and fences, in pieces along x."""

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, Piece, box, join, quads, rings, shade
from carla_bridge.simulator.scene import StaticObject


def guard_rail(thing: StaticObject, near: bool) -> list[Piece]:
    """A steel beam with a fold, on posts."""
    length, width, height = thing.size
    x, y = length / 2, width / 2
    low, fold, top = 0.52 * height, 0.76 * height, height
    if not near:
        return [Piece(_strip(x, ((-y, low), (-y, top), (y, top), (y, low)), thing.colour))]
    beams = _strip(x, ((-y, low), (-0.45 * y, fold), (-y, top), (y, top), (0.45 * y, fold), (y, low)), thing.colour)
    count = max(round(length / 4), 1)
    posts = [
        box((at - 0.06, -0.3 * y, 0), (at + 0.06, 0.3 * y, low), shade(thing.colour, 0.7), "front back left right")
        for at in (-x + (number + 0.5) * length / count for number in range(count))
    ]
    return [Piece(join([beams, *posts]))]


def barrier(thing: StaticObject) -> list[Piece]:
    """Concrete with a wide foot."""
    length, width, height = thing.size
    x, y = length / 2, width / 2
    outline = ((-y, 0), (-0.9 * y, 0.12 * height), (-0.4 * y, 0.45 * height), (-0.3 * y, height))
    mirrored = [(-across, z) for across, z in reversed(outline)]
    return [Piece(_strip(x, (*outline, *mirrored), thing.colour))]


def noise_wall(thing: StaticObject) -> list[Piece]:
    """Panels between posts, with a darker foot and coloured band."""
    length, width, height = thing.size
    x, y = length / 2, width / 2
    parts: list[Mesh] = []
    for z0, z1, level in ((0.0, 0.18, 0.7), (0.18, 0.62, 1.0), (0.62, 0.74, 0.8), (0.74, 1.0, 1.06)):
        faces = "left right top" if z1 == 1.0 else "left right"
        parts.append(box((-x, -0.5 * y, z0 * height), (x, 0.5 * y, z1 * height), shade(thing.colour, level), faces))
    for at in (-x, 0.0):
        parts.append(box((at, -y, 0), (at + 0.2, y, height), shade(thing.colour, 0.55)))
    return [Piece(join(parts))]


def fence(thing: StaticObject, near: bool) -> list[Piece]:
    """Posts and rails."""
    length, width, height = thing.size
    x, y = length / 2, max(width / 2, 0.03)
    rails = [
        box((-x, -0.6 * y, share * height - 0.06), (x, 0.6 * y, share * height + 0.06), thing.colour, "left right top")
        for share in ((0.45, 0.85) if near else (0.75,))
    ]
    count = max(round(length / 2), 1)
    spots = [-x + (number + 0.5) * length / count for number in range(count)] if near else []
    posts = [
        box((at - 0.05, -y, 0), (at + 0.05, y, height), shade(thing.colour, 0.85), "front back left right")
        for at in spots
    ]
    return [Piece(join([*rails, *posts]))]


def _strip(x: float, outline: tuple[tuple[float, float], ...], colour: Colour) -> Mesh:
    """An open profile in y and z, drawn out from -x to x, with its ends left open."""
    sections = [[(at, y, z) for y, z in outline] for at in (-x, x)]
    middle = sum(z for _, z in outline) / len(outline)
    strip = rings(sections, colour, (0, 0, middle), closed=False)
    ends = [
        [
            (at, *outline[0]),
            (at, *outline[-1]),
            (at, *outline[len(outline) // 2]),
            (at, *outline[len(outline) // 2 - 1]),
        ]
        for at in (-x, x)
    ]
    return join([strip, quads(ends, colour, (0, 0, middle))])
