"""Wheels."""

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, disc, empty, join, tube

TYRE: Colour = (28, 28, 30)
RIM: Colour = (150, 152, 156)


def car_wheel(x: float, outer: float, radius: float, width: float, near: bool) -> Mesh:
    """A wheel that stands on the ground; `outer` is the y of its outside, its sign says which side."""
    side = 1.0 if outer > 0 else -1.0
    facing = (0.0, side, 0.0)
    centre = (x, outer, radius)
    if not near:
        return disc(centre, radius, facing, TYRE, sides=7)
    return join(
        [
            disc((x, outer - 0.008 * side, radius), radius, facing, TYRE, sides=12),
            disc(centre, 0.62 * radius, facing, RIM, sides=8),
            tube(centre, (x, outer - side * width, radius), (radius, radius), TYRE, sides=10),
        ]
    )


def thin_wheel(x: float, radius: float, thickness: float, colour: Colour, rim: Colour, near: bool) -> Mesh:
    """A wheel of a two-wheeler, in the plane y = 0."""
    sides = 12 if near else 7
    parts = []
    for side in (1.0, -1.0):
        y = side * thickness / 2
        parts.append(disc((x, y, radius), radius, (0, side, 0), colour, sides))
        parts.append(disc((x, 1.3 * y, radius), 0.8 * radius, (0, side, 0), rim, sides) if near else empty())
    start, end = (x, -thickness / 2, radius), (x, thickness / 2, radius)
    parts.append(tube(start, end, (radius, radius), colour, sides) if near else empty())
    return join(parts)
