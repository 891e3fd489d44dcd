"""The sky behind everything: a gradient from the horizon up, clouds on a plane overhead, a bright place at the sun."""

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.light import Light
from carla_bridge.simulator.rendering.noise import WrappedTile, fractal_tile
from carla_bridge.simulator.rendering.rays import Image, Rays

_CLOUD_HEIGHT = 900.0
_CLOUD_TILE = 512
_METRES_PER_CELL = 14.0
_FARTHEST_CLOUD = 9000.0
_STEPS = 255
_THINNED = 4


class Sky:
    """Colours of sky pixels for a light."""

    def __init__(self) -> None:
        noise = fractal_tile(_CLOUD_TILE, (4, 8, 16, 32, 64), 0.55, seed=11)
        self._clouds = WrappedTile(noise, _METRES_PER_CELL, reach=2 * _FARTHEST_CLOUD)

    def colours(self, rays: Rays, light: Light) -> NDArray[np.uint8]:
        """(h, w, 4) blue, green, red, 255 for the given rows of rays; worked out for every fourth row and column."""
        size = (len(rays.along_columns[0]), len(rays.down_rows[0]))
        rays = rays.thinned(_THINNED)
        height: Image = np.clip(rays.rise() / rays.length(), 0, 1)
        index = (np.sqrt(height) * _STEPS).astype(np.uint8)
        rise = (np.arange(_STEPS + 1) / _STEPS) ** 2
        blend = (1 - np.exp(-4.5 * rise)) / (1 - np.exp(-4.5))
        cover = self._cover(rays, light)
        cover *= np.take(np.clip(rise * 7 - 0.25, 0, 1).astype(np.float32), index)
        small = np.full((*index.shape, 4), 255, np.uint8)
        for place, channel in enumerate((2, 1, 0)):
            low, high = float(light.horizon[channel]), float(light.zenith[channel])
            gradient = (255 * (low + (high - low) * blend)).astype(np.float32)
            plane = np.take(gradient, index)
            plane += cover * (np.float32(255 * light.cloud[channel]) - plane)
            small[..., place] = np.minimum(plane, 255)
        return np.asarray(cv2.resize(small, size, interpolation=cv2.INTER_LINEAR), np.uint8)

    def _cover(self, rays: Rays, light: Light) -> Image:
        """How much cloud is seen in each pixel, 0 to 1."""
        distance = np.clip(rays.to_height(rays.origin[2] + _CLOUD_HEIGHT), 0, _FARTHEST_CLOUD)
        edge = 0.78 - 0.6 * light.cloud_cover
        levels = np.clip((np.arange(256) / 255 - edge) / 0.35, 0, 1)
        levels = levels * min(4 * light.cloud_cover, 1.0) * (0.35 + 0.5 * light.cloud_cover)
        return np.take(levels.astype(np.float32), self._clouds.sample(rays, distance))
