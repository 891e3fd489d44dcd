"""From what the engine drew to the finished picture: ground, sky and air, laid over whole images at once.

Images are kept as separate planes of blue, green and red: whole-array arithmetic on them is several times faster
than on interleaved pixels.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.engine import metres
from carla_bridge.simulator.rendering.groundcover import GroundCover
from carla_bridge.simulator.rendering.ids import glow_of_codes
from carla_bridge.simulator.rendering.light import Light, Rgb
from carla_bridge.simulator.rendering.rays import Image, Rays, rays_of
from carla_bridge.simulator.rendering.sky import Sky
from carla_bridge.simulator.rendering.visible import Identified
from carla_bridge.simulator.scene import Picture, Town
from carla_bridge.simulator.semantics import Tag

FARTHEST = 1000.0
"""CARLA's depth camera ends here; so does ours."""
_WINDOW_LIGHT = np.array([1.0, 0.78, 0.47], np.float32)
"""Red, green, blue of a lit window."""


class Compositor:
    """Finishes pictures of one town."""

    def __init__(self, town: Town) -> None:
        self._ground = GroundCover(town)
        self._sky = Sky()
        self._glow = glow_of_codes()

    def finish(self, drawn: Identified, camera: Pinhole, light: Light) -> Picture:
        """Every pixel times a gain plus an added light: shadows and stains, water, lit windows, and the air."""
        rays = rays_of(camera)
        depth = metres(drawn.steps, rays.nearness_of_ground())
        np.minimum(depth, np.float32(FARTHEST), out=depth)
        through = _through_air(depth, light)
        gain = through.copy()
        glows: list[tuple[Image, Rgb]] = []
        mirror = self._ground.cover(gain, drawn, rays, light)
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
        planes = [_lit(drawn.colours, index, gain, [(veil, light.haze), *glows]) for index in range(3)]
        bgra = _bytes(cv2.merge([*planes, np.full(depth.shape, 255, np.uint8)]))
        self._put_sky(bgra, drawn.codes == Tag.SKY, rays, light)
        return Picture(bgra, drawn.tags, drawn.object_ids, depth)

    def _put_sky(self, bgra: NDArray[np.uint8], sky: NDArray[np.bool_], rays: Rays, light: Light) -> None:
        rows = np.flatnonzero(sky.any(axis=1))
        if len(rows):
            band = slice(int(rows[0]), int(rows[-1]) + 1)
            colours = self._sky.colours(rays.rows(band.start, band.stop), light)
            cv2.copyTo(colours, sky[band].view(np.uint8), bgra[band])


def _through_air(depth: Image, light: Light) -> Image:
    """Which share of its own light reaches the camera from each pixel."""
    far = depth * np.float32(-light.extinction)
    if light.clear_metres > 0:
        far += np.float32(light.extinction * light.clear_metres)
        np.minimum(far, 0, out=far)
    return np.asarray(cv2.exp(far), np.float32)


def _lit(colours: NDArray[np.uint8], index: int, gain: Image, glows: Sequence[tuple[Image, Rgb]]) -> NDArray[np.uint8]:
    """One plane of blue, green, red: the colours times the gain, plus each glow in its own colour."""
    plane = cv2.extractChannel(colours, index).astype(np.float32)
    plane *= gain
    for level, colour in glows:
        cv2.scaleAdd(level, float(colour[2 - index]), plane, plane)
    return _bytes(cv2.convertScaleAbs(plane))


def _bytes(image: object) -> NDArray[np.uint8]:
    return np.asarray(image, np.uint8)
