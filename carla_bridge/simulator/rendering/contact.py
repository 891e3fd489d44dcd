"""Soft shadows under what moves: a blurred rectangle each, that darkens the pixels of the ground in which it is seen.

The engine does not draw them, because nothing transparent can be made of two of its triangles: both cover the row of
pixels in which they meet, which would be darkened twice, to a black line.
"""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.actor_nodes import Scene
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.groundcover import Cover
from carla_bridge.simulator.rendering.light import Light
from carla_bridge.simulator.rendering.occlusion import Screen
from carla_bridge.simulator.rendering.rays import Image

Floats = NDArray[np.float64]

_SOFT = 0.45
"""Width of the blurred edge in metres."""
_CELL = 0.15
"""Metres between the rectangle's samples: a part of the edge, over which brightness changes evenly."""
_LOWEST_SUN = 0.35
"""Shadows grow no longer when the sun is lower than this, as the height of its direction."""
_REACH = 1 + 0.5 / _LOWEST_SUN
"""How far a shadow may reach from the actor's place, in radii."""
_FAINTEST, _DARKEST = 0.28, 0.6
_FLATTEST = 0.3
"""Rows of pixels under which a shadow is left out."""
_NEAR = 0.1
"""Metres along the camera's axis before which nothing is seen."""
_CORNERS = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])


def lay_shadows(cover: Cover, scene: Scene, camera: Pinhole, screen: Screen, light: Light) -> None:
    """Put a shadow under every actor where it may be seen, pushed away from the sun."""
    seen = _seen(scene, camera, screen)
    if not len(seen) or camera.position[2] <= 0:
        return
    seen = seen[np.lexsort(scene.positions[seen].T)]
    extents, ahead = scene.extents[seen], scene.axes[seen, :2, 0]
    ahead = ahead / np.maximum(np.hypot(*ahead.T), 1e-6)[:, None]
    axes = np.stack([ahead, np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)], axis=1)
    push = np.zeros(2)
    if light.shadow > 0:
        push = -0.5 * light.to_sun[:2] / max(float(light.to_sun[2]), _LOWEST_SUN)
    middles = scene.positions[seen, :2] + push * extents[:, 2:]
    halves = extents[:, :2] + _SOFT
    windows = _windows(camera, middles[:, None] + (halves[:, None] * _CORNERS) @ axes, cover.band)
    maps = _samples(middles, halves, axes) @ _ground(camera)
    darkness = round(255 * min(_FAINTEST + 0.6 * light.shadow, _DARKEST))
    for (left, top, right, bottom), extent, samples in zip(windows.tolist(), extents.tolist(), maps, strict=True):
        if left < right and top < bottom:
            samples[:, 2] += samples[:, 0] * left + samples[:, 1] * top
            pixels = cover.factor[top - cover.band.start : bottom - cover.band.start, left:right]
            pixels *= _seen_through(samples, _rectangle(extent[0], extent[1], darkness), pixels)


def _seen(scene: Scene, camera: Pinhole, screen: Screen) -> NDArray[np.int64]:
    """Whose shadows are in view, not behind a building, and not too flat."""
    reach = _REACH * scene.radii + 2 * _SOFT
    distance = (scene.positions - camera.position) @ camera.axes[:, 0] - reach
    rise = np.abs(camera.position[2]) + distance * np.abs(camera.axes[2, 0])
    tall = 2 * reach * rise * camera.focal >= _FLATTEST * distance * distance
    found = np.flatnonzero(camera.sees(scene.positions, reach) & (tall | (distance < 1)))
    return found[~screen.hides(scene.positions[found], reach[found], np.zeros(len(found)))]


def _seen_through(samples: Floats, rectangle: Image, pixels: Image) -> Image:
    """The rectangle as it looks in these pixels."""
    size = (pixels.shape[1], pixels.shape[0])
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpPerspective(rectangle, samples, size, flags=how, borderValue=1.0), np.float32)


@lru_cache(256)
def _rectangle(along: float, across: float, darkness: int) -> Image:
    """By which the ground's brightness is multiplied around an actor of these half sizes: 1 at the rim."""
    edges = []
    for half in (along, across):
        places = np.arange(0, 2 * (half + _SOFT) + _CELL, _CELL) - (half + _SOFT)
        edges.append(np.clip((half + _SOFT - np.abs(places)) / _SOFT, 0, 1))
    factor: Image = (1 - darkness / 255 * np.outer(edges[1], edges[0])).astype(np.float32)
    return factor


def _samples(middles: Floats, halves: Floats, axes: Floats) -> Floats:
    """(n, 3, 3): from (x, y, 1) on the ground to column and row in each rectangle."""
    maps = np.zeros((len(middles), 3, 3))
    maps[:, :2, :2] = axes / _CELL
    maps[:, :2, 2] = halves / _CELL - (maps[:, :2, :2] @ middles[..., None])[..., 0]
    maps[:, 2, 2] = 1
    return maps


def _ground(camera: Pinhole) -> Floats:
    """(3, 3): from a pixel (column, row, 1) to the place on the ground that its ray meets, in homogeneous numbers."""
    ahead, aside, above = camera.axes.T
    aside, above = aside / camera.focal, above / camera.focal
    first = ahead + (0.5 - camera.middle) * aside + (camera.height / 2 - 0.5) * above
    x, y, down = np.stack([aside, -above, first], axis=1)
    eye_x, eye_y, height = camera.position
    return np.stack([eye_x * down - height * x, eye_y * down - height * y, down])


def _windows(camera: Pinhole, outlines: Floats, band: slice) -> NDArray[np.int64]:
    """(n, 4) left, top, right, bottom of the pixels around each outline (n, 4, 2) on the ground; may be empty."""
    places = np.concatenate([outlines, np.zeros((*outlines.shape[:2], 1))], axis=2)
    corners = (places - camera.position) @ camera.axes
    following = np.roll(corners, -1, axis=1)
    start, end = corners[..., 0] - _NEAR, following[..., 0] - _NEAR
    cut = start * end < 0
    share = np.where(cut, start / np.where(cut, start - end, 1), 0)[..., None]
    points = np.concatenate([corners, corners + share * (following - corners)], axis=1)
    shown = np.concatenate([start >= 0, cut], axis=1)[..., None]
    depth = np.maximum(points[..., :1], _NEAR)
    pixels = np.array([camera.middle, camera.height / 2]) + camera.focal * points[..., 1:] * (1, -1) / depth
    limits = np.array([0, band.start]), np.array([camera.width, band.stop])
    low = np.floor(np.where(shown, pixels, np.inf).min(axis=1))
    high = np.ceil(np.where(shown, pixels, -np.inf).max(axis=1))
    return np.concatenate([np.clip(low, *limits), np.clip(high, *limits)], axis=1).astype(np.int64)
