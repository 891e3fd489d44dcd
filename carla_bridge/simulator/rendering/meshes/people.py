"""Walkers and riders: limbs of tubes and boxes, dressed by their blueprint."""

from dataclasses import dataclass
from itertools import pairwise
from math import cos, radians, sin
from zlib import crc32

import numpy as np

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, box, empty, fitted, join, rings, shade, tube

_SKINS: tuple[Colour, ...] = ((234, 190, 160), (214, 164, 128), (170, 118, 82), (112, 74, 52))
_HAIR: tuple[Colour, ...] = ((40, 30, 24), (92, 62, 36), (168, 130, 70), (150, 150, 150), (28, 26, 28))
_TOPS: tuple[Colour, ...] = (
    (180, 40, 44),
    (36, 70, 140),
    (230, 226, 216),
    (40, 42, 46),
    (60, 120, 72),
    (222, 176, 52),
    (120, 80, 140),
    (96, 132, 164),
    (214, 120, 60),
    (128, 126, 120),
)
_TROUSERS: tuple[Colour, ...] = ((44, 56, 92), (34, 34, 38), (112, 96, 74), (74, 78, 84), (150, 140, 120), (70, 46, 40))
_FACES = "front back left right top"
_SHOES: tuple[Colour, ...] = ((30, 28, 28), (220, 220, 220), (100, 60, 36))


@dataclass(frozen=True)
class Clothes:
    """What a person wears, and the colours of skin and hair."""

    skin: Colour
    hair: Colour
    top: Colour
    trousers: Colour
    shoes: Colour
    skirt: bool
    bag: bool


def clothes_of(name: str) -> Clothes:
    """Always the same clothes for the same name."""
    rng = np.random.default_rng(crc32(name.encode()))

    def pick(choices: tuple[Colour, ...]) -> Colour:
        return choices[int(rng.integers(len(choices)))]

    return Clothes(
        pick(_SKINS),
        pick(_HAIR),
        pick(_TOPS),
        pick(_TROUSERS),
        pick(_SHOES),
        bool(rng.random() < 0.25),
        bool(rng.random() < 0.3),
    )


def walker(extent: tuple[float, float, float], clothes: Clothes, phase: float, near: bool) -> Mesh:
    """Somebody who walks along x; `phase` is where in the step, in radians."""
    half_x, half_y, half_z = extent
    height = 2 * half_z
    hip, shoulder, neck = 0.48 * height, 0.8 * height, 0.84 * height
    wide, deep = min(half_y, 0.13 * height), min(half_x, 0.075 * height)
    swing = min(1.0, 1.05 * half_x / (hip * sin(radians(26)))) * 26
    sides = 6 if near else 4
    parts = []
    for side, sign in ((1, 1.0), (-1, -1.0)):
        angle = sign * swing * sin(phase)
        y = side * 0.5 * wide
        knee = (0.5 * hip * sin(radians(angle + 4)), y, hip - 0.5 * hip * cos(radians(angle)))
        bend = angle - 14 * max(0.0, -sign * cos(phase))
        foot = (knee[0] + 0.46 * hip * sin(radians(bend)), y, max(0.04, knee[2] - 0.46 * hip * cos(radians(bend))))
        leg = 0.05 * height
        parts.append(tube((0, y, hip), knee if near else foot, (leg, 0.7 * leg), clothes.trousers, sides))
        shin = clothes.skin if clothes.skirt else clothes.trousers
        if near or clothes.skirt:
            parts.append(tube(knee, foot, (0.78 * leg, 0.55 * leg), shin, sides))
        low = max(0.0, foot[2] - 0.045)
        toe = (foot[0] + 0.13, y + 0.045, low + 0.075)
        parts.append(box((foot[0] - 0.07, y - 0.045, low), toe, clothes.shoes, _FACES if near else "front back"))
        hand_x = -0.6 * 0.36 * height * sin(radians(angle))
        hand = (hand_x, side * 1.0 * wide, shoulder - 0.36 * height)
        elbow = (0.35 * hand_x - 0.03, side * 1.02 * wide, shoulder - 0.19 * height) if near else hand
        arm = 0.026 * height
        parts.append(tube((0, side * 0.86 * wide, shoulder), elbow, (1.25 * arm, arm), clothes.top, sides))
        if near:
            parts.append(tube(elbow, hand, (arm, 0.8 * arm), clothes.skin, sides))
    parts.append(_torso(deep, wide, hip, shoulder, neck, clothes))
    parts.append(_head(0.0, neck, height, clothes, near))
    if clothes.skirt:
        flare = tube((0, 0, 0.3 * height), (0, 0, 0.52 * height), (0.9 * wide, 0.62 * wide), clothes.trousers, 7)
        parts.append(flare)
    if clothes.bag and near:
        corner = (-deep, 0.6 * wide, 0.78 * height)
        parts.append(box((-deep - 0.14, -0.6 * wide, 0.56 * height), corner, shade(clothes.trousers, 1.3)))
    return fitted(join(parts), extent)


def rider(
    seat: tuple[float, float],
    grip: tuple[float, float],
    pedals: tuple[float, float],
    top: float,
    half_width: float,
    clothes: Clothes,
    spin: float,
    helmet: Colour,
    near: bool,
) -> Mesh:
    """Somebody who sits at `seat`, holds `grip` and has the feet at `pedals`, each an (x, z); `top` is the crown."""
    (sx, sz), (gx, gz), (px, pz) = seat, grip, pedals
    sides = 6 if near else 4
    head_size = 0.25
    lean = 0.45 * (gx - sx)
    neck = (sx + lean, 0.0, top - head_size)
    wide = min(half_width, 0.23)
    parts = [tube((sx, 0, sz), (neck[0], 0, neck[2] - 0.02), (0.15, 0.19), clothes.top, 7 if near else 5)]
    for side in (1, -1):
        turn = spin + (0 if side > 0 else np.pi)
        foot = (px + 0.12 * cos(turn), side * 0.12, pz + 0.12 * sin(turn))
        knee = (max(sx + 0.34, 0.5 * (sx + foot[0]) + 0.22), side * 0.15, 0.5 * (sz + foot[2]) + 0.12)
        parts.append(tube((sx, side * 0.09, sz), knee, (0.085, 0.065), clothes.trousers, sides))
        parts.append(tube(knee, foot, (0.06, 0.045), clothes.trousers, sides))
        toe = (foot[0] + 0.15, foot[1] + 0.045, foot[2] + 0.04)
        parts.append(box((foot[0] - 0.08, foot[1] - 0.045, foot[2] - 0.05), toe, clothes.shoes))
        shoulder = (neck[0] - 0.02, side * 0.8 * wide, neck[2] - 0.06)
        hand = (gx, side * wide, gz)
        elbow = tuple(0.5 * (a + b) - d for a, b, d in zip(shoulder, hand, (0.02, 0.0, 0.08), strict=True))
        parts.append(tube(shoulder, elbow, (0.055, 0.045), clothes.top, sides))
        parts.append(tube(elbow, hand, (0.045, 0.04), clothes.top, sides))
    x = neck[0]
    parts.append(_ball((x + 0.02, 0.0, top - 0.5 * head_size), 0.115, 0.5 * head_size, clothes.skin, near))
    parts.append(_ball((x, 0.0, top - 0.38 * head_size), 0.125, 0.38 * head_size, helmet, near))
    return join(parts)


def _torso(deep: float, wide: float, hip: float, shoulder: float, neck: float, clothes: Clothes) -> Mesh:
    sections = []
    for z, w, d in (
        (hip - 0.04, 0.72, 0.95),
        (hip + 0.12, 0.68, 0.9),
        (shoulder - 0.06, 0.92, 1.0),
        (shoulder + 0.03, 0.8, 0.8),
        (neck, 0.3, 0.5),
    ):
        y, x = w * wide, d * deep
        sections.append([(x, -0.6 * y, z), (x, 0.6 * y, z), (0, y, z), (-x, 0.6 * y, z), (-x, -0.6 * y, z), (0, -y, z)])
    colours = np.array([clothes.trousers, clothes.top, clothes.top, clothes.top])
    return rings(sections, np.repeat(colours[:, None], 6, axis=1), (0, 0, (hip + shoulder) / 2))


def _head(x: float, neck: float, top: float, clothes: Clothes, near: bool) -> Mesh:
    high = 0.5 * (top - neck)
    face = _ball((x + 0.015, 0, neck + high), 0.085, high, clothes.skin, near)
    hair = _ball((x - 0.012, 0, top - 0.78 * high), 0.094, 0.78 * high, clothes.hair, near)
    return join(
        [
            face,
            hair,
            empty() if not near else tube((x, 0, neck - 0.05), (x, 0, neck + 0.05), (0.05, 0.05), clothes.skin),
        ]
    )


def _ball(centre: tuple[float, float, float], radius: float, high: float, colour: Colour, near: bool) -> Mesh:
    """A small ellipsoid; `high` is its half height."""
    x, y, z = centre
    rows = ((-1.0, 0.25), (-0.45, 0.88), (0.35, 0.92), (1.0, 0.3)) if near else ((-1.0, 0.5), (0.2, 1.0), (1.0, 0.4))
    parts = []
    for (z0, r0), (z1, r1) in pairwise(rows):
        start, end = (x, y, z + z0 * high), (x, y, z + z1 * high)
        parts.append(tube(start, end, (r0 * radius, r1 * radius), colour, 7 if near else 5))
    last = rows[-1]
    lid = 0.7 * last[1] * radius
    parts.append(box((x - lid, y - lid, z), (x + lid, y + lid, z + high), colour, "top"))
    return join(parts)
