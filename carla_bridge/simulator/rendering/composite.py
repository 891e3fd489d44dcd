"""Finishes what the engine drew: ground, sky and air, laid over whole images at once.

The backdrop is the part that needs none of the engine's pixels; it can be made while the engine draws.

Images are kept as separate planes of blue, green and red: whole-array arithmetic on them is several times faster
than on interleaved pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.actor_nodes import Scene
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.contact import lay_shadows
from carla_bridge.simulator.rendering.engine import metres
from carla_bridge.simulator.rendering.groundcover import Cover, GroundCover
from carla_bridge.simulator.rendering.ids import glow_of_codes
from carla_bridge.simulator.rendering.light import Light, Rgb
from carla_bridge.simulator.rendering.occlusion import Screen
from carla_bridge.simulator.rendering.rays import Image, rays_of
from carla_bridge.simulator.rendering.sky import Sky
from carla_bridge.simulator.rendering.visible import IdentifiedFrame
from carla_bridge.simulator.scene import ColourAndDepth, Town

FARTHEST = 1000.0
"""CARLA's depth camera ends here; so does ours."""
_WINDOW_LIGHT = np.array([1.0, 0.78, 0.47], np.float32)
"""Red, green, blue of a lit window."""


@dataclass(frozen=True)
class Backdrop:
    """What a camera would see of a world where nothing stands."""

    nearness: Image
    """1 / metres to the ground, shaped like a ray's rise."""
    cover: Cover | None
    sky: NDArray[np.uint8]
    """Of the rows from the top in which it may be seen."""


class Compositor:
    """Finishes pictures of one town."""

    def __init__(self, town: Town) -> None:
        self._ground = GroundCover(town)
        self._sky = Sky()
        self._glow = glow_of_codes()

    def backdrop(self, camera: Pinhole, screen: Screen, scene: Scene, light: Light) -> Backdrop:
        """To be used for one picture."""
        rays = rays_of(camera)
        cover = self._ground.cover(rays, light)
        if cover is not None:
            lay_shadows(cover, scene, camera, screen, light)
        return Backdrop(rays.nearness_of_ground(), cover, self._sky.colours(rays, light))

    def finish(self, drawn: IdentifiedFrame, backdrop: Backdrop, light: Light) -> ColourAndDepth:
        """Every pixel times a gain plus an added light: shadows and stains, water, lit windows, and the air."""
        depth = metres(drawn.steps, backdrop.nearness)
        np.minimum(depth, np.float32(FARTHEST), out=depth)
        through = _through_air(depth, light)
        gain = through.copy()
        glows: list[tuple[Image, Rgb]] = []
        if backdrop.cover is not None:
            mirror = self._ground.lay(backdrop.cover, gain, drawn, light)
            if mirror is not None:
                glows.append((mirror, light.horizon))
        if light.night > 0:
            glow = np.take(self._glow * np.float32(light.night), drawn.codes)
            glows.append((glow, _WINDOW_LIGHT))
        full = through * np.float32(255)
        for share, _ in glows:
            gain -= gain * share
            np.multiply(share, full, out=share)
        veil = np.float32(255) - full
        blue_green_red = cv2.split(drawn.colours)[:3]
        planes = [
            _lit(_bytes(plane), gain, [(veil, light.haze), *glows], 2 - n) for n, plane in enumerate(blue_green_red)
        ]
        bgra = _bytes(cv2.merge([*planes, np.full(depth.shape, 255, np.uint8)]))
        up = slice(len(backdrop.sky))
        cv2.copyTo(backdrop.sky, (drawn.codes[up] == Tag.SKY).view(np.uint8), bgra[up])
        return ColourAndDepth(bgra, depth)


def _through_air(depth: Image, light: Light) -> Image:
    """The share of each pixel's own light that reaches the camera."""
    far = depth * np.float32(-light.extinction)
    if light.clear_metres > 0:
        far += np.float32(light.extinction * light.clear_metres)
        np.minimum(far, 0, out=far)
    return np.asarray(cv2.exp(far), np.float32)


def _lit(plane: NDArray[np.uint8], gain: Image, glows: Sequence[tuple[Image, Rgb]], colour: int) -> NDArray[np.uint8]:
    """One plane times the gain, plus of each glow what it has of this colour of red, green and blue."""
    lit = plane.astype(np.float32)
    lit *= gain
    for level, glow in glows:
        cv2.scaleAdd(level, float(glow[colour]), lit, lit)
    return _bytes(cv2.convertScaleAbs(lit))


def _bytes(image: object) -> NDArray[np.uint8]:
    return np.asarray(image, np.uint8)
