"""Small textures, made of arithmetic: facades whose windows can be lit, shop fronts, leaves, roof tiles.

A texture's colours multiply those of the mesh that wears it. Facades carry in their alpha how far a texel is a lit
window (see `ids`); all others are opaque.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from panda3d.core import SamplerState, Texture

from carla_bridge.simulator.catalogue.kinds import FACADES
from carla_bridge.simulator.rendering.ids import FACADE_DARK, FACADE_LIT
from carla_bridge.simulator.rendering.noise import fractal_tile

Texels = NDArray[np.float32]
_SIZE = 128
BAYS = FLOORS = 4
"""Windows across and up in one facade texture."""


def facade(number: int) -> str:
    return f"facade {number % FACADES}"


SHOP, LEAVES, TILES, SHEET = "shop", "leaves", "tiles", "sheet"
PLAIN_WALL = (0.004, 0.004)
"""Texture coordinates of a texel of bare wall, in every facade: for roofs and gables in the same draw call."""


def is_facade(name: str) -> bool:
    """Whether the texture brings its own codes."""
    return name == SHOP or name.startswith("facade")


@dataclass(frozen=True)
class _Front:
    """How a facade is divided: shares of one bay and floor."""

    wide: float
    tall: float
    glass: tuple[int, int, int]
    bricks: bool = False
    ledge: bool = False
    mullions: int = 1
    frame: float = 1.0
    """Brightness of the window frame."""


_FRONTS = (
    _Front(0.42, 0.56, (52, 62, 74), bricks=True, ledge=True),
    _Front(0.38, 0.6, (44, 52, 62), frame=0.75),
    _Front(0.74, 0.5, (70, 86, 100), mullions=3),
    _Front(0.94, 0.84, (86, 112, 132), mullions=2, frame=0.5),
    _Front(0.34, 0.66, (40, 46, 54), bricks=True, frame=1.15),
    _Front(0.58, 0.62, (58, 68, 78), ledge=True, mullions=2),
    _Front(1.0, 0.46, (62, 78, 94), mullions=4, frame=0.6),
    _Front(0.46, 0.5, (48, 54, 60), ledge=True, frame=0.9),
)


def make_textures() -> dict[str, Texture]:
    """All textures by name."""
    made = {facade(number): _facade(front, number) for number, front in enumerate(_FRONTS)}
    made[SHOP] = _shop()
    made[LEAVES] = _speckle(0.62, 1.12, (8, 16, 32, 64), 21)
    made[TILES] = _tiles()
    made[SHEET] = _sheet()
    return {name: _texture(name, *texels) for name, texels in made.items()}


def _texture(name: str, rgb: Texels, alpha: Texels) -> Texture:
    height, width = alpha.shape
    texture = Texture(name)
    texture.setup_2d_texture(width, height, Texture.T_unsigned_byte, Texture.F_rgba)
    bgra = np.dstack([rgb[..., ::-1], alpha])
    texture.set_ram_image(np.ascontiguousarray(np.clip(np.round(bgra), 0, 255).astype(np.uint8)[::-1]).tobytes())
    texture.set_minfilter(SamplerState.FT_nearest_mipmap_nearest)
    texture.set_magfilter(SamplerState.FT_nearest)
    return texture


def _facade(front: _Front, seed: int) -> tuple[Texels, Texels]:
    rng = np.random.default_rng([7, seed])
    grain = 0.88 + 0.12 * fractal_tile(_SIZE, (4, 16, 32), 0.7, seed=40 + seed)
    if front.bricks:
        grain *= _brickwork()
    rgb = np.repeat(232 * grain[..., None], 3, axis=2).astype(np.float32)
    alpha = np.full((_SIZE, _SIZE), FACADE_DARK, np.float32)
    step = _SIZE // BAYS
    wide, tall = round(front.wide * step), round(front.tall * step)
    for row in range(FLOORS):
        for column in range(BAYS):
            left = column * step + (step - wide) // 2
            top = row * step + round(0.42 * (step - tall))
            if front.ledge:
                rgb[top + tall : top + tall + 2, max(left - 2, 0) : left + wide + 2] *= 1.1
                rgb[top + tall + 2 : top + tall + 3, left : left + wide] *= 0.7
            rgb[top : top + tall, left : left + wide] = 232 * front.frame * 0.9
            _window(rgb, alpha, (left, top, wide, tall), front, rng)
    return rgb, alpha


def _window(
    rgb: Texels, alpha: Texels, place: tuple[int, int, int, int], front: _Front, rng: np.random.Generator
) -> None:
    left, top, wide, tall = place
    lit = rng.random() < 0.4
    tone = rng.uniform(0.75, 1.25)
    curtain = int(rng.integers(0, max(tall // 2, 1))) if rng.random() < 0.4 else 0
    for pane in _panes(left + 1, wide - 2, front.mullions):
        inner = (slice(top + 1, top + tall - 1), pane)
        sheen = np.linspace(1.35, 0.8, tall - 2, dtype=np.float32)[:, None, None]
        rgb[inner] = np.asarray(front.glass, np.float32) * np.float32(tone) * sheen
        rgb[top + 1 : top + 1 + curtain, pane] = (176, 170, 160)
        if lit:
            alpha[inner] = FACADE_LIT


def _panes(left: int, wide: int, count: int) -> Iterable[slice]:
    edges = np.round(np.linspace(left, left + wide + 1, count + 1)).astype(int)
    return (slice(int(a), max(int(b) - 1, int(a) + 1)) for a, b in pairwise(edges))


def _shop() -> tuple[Texels, Texels]:
    """Two shop fronts and two doors under a fascia."""
    rng = np.random.default_rng(17)
    rgb = np.full((_SIZE, _SIZE, 3), 196, np.float32)
    alpha = np.full((_SIZE, _SIZE), FACADE_DARK, np.float32)
    rgb *= (0.9 + 0.1 * fractal_tile(_SIZE, (8, 32), 0.7, seed=60))[..., None]
    for column, wide in ((4, 44), (52, 12), (68, 40), (112, 12)):
        door = wide < 20
        top = 44 if door else 40
        glass = np.array((70, 76, 84) if not door else (84, 62, 46), np.float32) * rng.uniform(0.8, 1.2)
        rgb[top : 124 if door else 108, column : column + wide] = glass
        if not door:
            rgb[74:108:9, column + 2 : column + wide - 2] = rng.uniform(90, 200, 3)
            rgb[10:32, column : column + wide] = rng.uniform(60, 255, 3)
            alpha[top:108, column : column + wide] = FACADE_LIT
    rgb[34:38] *= 0.6
    rgb[122:] *= 0.7
    return rgb, alpha


def _speckle(low: float, high: float, octaves: tuple[int, ...], seed: int) -> tuple[Texels, Texels]:
    level = low + (high - low) * fractal_tile(64, octaves, 0.9, seed=seed)
    return np.repeat(200 * level[..., None], 3, axis=2).astype(np.float32), _opaque(64)


def _tiles() -> tuple[Texels, Texels]:
    rows = 1 - 0.3 * ((np.arange(64) % 8) < 2)
    level = rows[:, None] * (0.85 + 0.3 * fractal_tile(64, (16, 32, 64), 1.0, seed=31))
    return np.repeat(205 * level[..., None], 3, axis=2).astype(np.float32), _opaque(64)


def _sheet() -> tuple[Texels, Texels]:
    columns = 0.82 + 0.18 * np.cos(2 * np.pi * np.arange(64) / 8)
    level = columns[None, :] * (0.9 + 0.1 * fractal_tile(64, (4, 16), 0.8, seed=33))
    return np.repeat(225 * level[..., None], 3, axis=2).astype(np.float32), _opaque(64)


def _brickwork() -> Texels:
    y, x = np.mgrid[0:_SIZE, 0:_SIZE]
    joint = (y % 4 == 0) | ((x + 4 * ((y // 4) % 2)) % 8 == 0)
    return np.where(joint, np.float32(1.08), np.float32(0.92))


def _opaque(size: int) -> Texels:
    return np.full((size, size), 255, np.float32)
