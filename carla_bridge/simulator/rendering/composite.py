"""From what the engine drew to the finished picture: ground, sky and air, laid over whole images at once.

Images are kept as separate planes of blue, green and red: whole-array arithmetic on them is several times faster
than on interleaved pixels.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.engine import metres
from carla_bridge.simulator.rendering.groundcover import GroundCover
from carla_bridge.simulator.rendering.ids import glow_of_codes
from carla_bridge.simulator.rendering.light import Light
from carla_bridge.simulator.rendering.rays import Image, Rays, rays_of
from carla_bridge.simulator.rendering.sky import Sky
from carla_bridge.simulator.rendering.visible import Identified
from carla_bridge.simulator.scene import Picture, Town
from carla_bridge.simulator.semantics import Tag

FARTHEST = 1000.0
"""CARLA's depth camera ends here; so does ours."""
_WINDOW_LIGHT = (120.0, 200.0, 255.0)
"""Blue, green, red of a lit window."""


class Compositor:
    """Finishes pictures of one town."""

    def __init__(self, town: Town) -> None:
        self._ground = GroundCover(town)
        self._sky = Sky()
        self._glow = glow_of_codes()

    def finish(self, drawn: Identified, camera: Pinhole, light: Light) -> Picture:
        """Depth, then colour: ground and sky where nothing stands, lit windows, and the air before it all."""
        rays = rays_of(camera)
        sky = drawn.codes == Tag.SKY
        flat = drawn.steps == 0
        flat ^= sky
        depth = _depth(drawn, flat, sky, rays)
        planes = [plane.astype(np.float32) for plane in cv2.split(drawn.colours)[:3]]
        self._ground.cover(planes, flat, drawn.codes, rays, light)
        if light.night > 0:
            glow = np.take(self._glow * np.float32(light.night), drawn.codes)
            for index, level in enumerate(_WINDOW_LIGHT):
                planes[index] += glow * (np.float32(level) - planes[index])
        _breathe(planes, depth, light)
        self._put_sky(planes, sky, rays, light)
        opaque = np.full(depth.shape, 255, np.uint8)
        bgra: NDArray[np.uint8] = np.asarray(cv2.merge([*map(cv2.convertScaleAbs, planes), opaque]), np.uint8)
        return Picture(bgra, drawn.tags, drawn.object_ids, depth)

    def _put_sky(self, planes: list[Image], sky: NDArray[np.bool_], rays: Rays, light: Light) -> None:
        rows = np.flatnonzero(sky.any(axis=1))
        if not len(rows):
            return
        first, last = int(rows[0]), int(rows[-1]) + 1
        colours = self._sky.planes(rays.rows(first, last), light)
        for plane, colour in zip(planes, colours, strict=True):
            np.copyto(plane[first:last], colour, where=sky[first:last])


def _depth(drawn: Identified, flat: NDArray[np.bool_], sky: NDArray[np.bool_], rays: Rays) -> Image:
    """Depth along the axis: the engine's for solids, the ray's for the ground, the farthest for the sky."""
    depth = metres(drawn.steps)
    ground = rays.to_height(0.0)
    ground = np.where((ground < 0) | (ground > FARTHEST), np.float32(FARTHEST), ground)
    np.copyto(depth, ground, where=flat)
    np.copyto(depth, np.float32(FARTHEST), where=sky)
    return np.minimum(depth, np.float32(FARTHEST), out=depth)


def _breathe(planes: list[Image], depth: Image, light: Light) -> None:
    """Fade to the haze with distance."""
    through = depth - np.float32(light.clear_metres)
    np.maximum(through, 0, out=through)
    through *= np.float32(-light.extinction)
    np.exp(through, out=through)
    for index, channel in enumerate((2, 1, 0)):
        haze = np.float32(255 * light.haze[channel])
        planes[index] -= haze
        planes[index] *= through
        planes[index] += haze
