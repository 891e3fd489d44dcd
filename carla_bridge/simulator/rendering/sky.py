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
_LAND_ENDS = 800.0
"""Metres along the camera's axis within which all rays that come down meet the ground."""
_STEPS = 255
_THINNED = 4


class Sky:
    """Colours of sky pixels for a light."""

    def __init__(self) -> None:
        noise = fractal_tile(_CLOUD_TILE, (4, 8, 16, 32, 64), 0.55, seed=11)
        self._clouds = WrappedTile(noise, _METRES_PER_CELL, reach=2 * _FARTHEST_CLOUD)
        rise = (np.arange(_STEPS + 1) / _STEPS) ** 2
        self._blend = ((1 - np.exp(-4.5 * rise)) / (1 - np.exp(-4.5)))[:, None]
        self._clear = np.clip(rise * 7 - 0.25, 0, 1).astype(np.float32)
        """How far clouds show at each step of the gradient: not at the horizon."""
        self._light: Light | None = None

    def colours(self, rays: Rays, light: Light) -> NDArray[np.uint8]:
        """(n, w, 4) blue, green, red, 255 of the rows down to the last that looks beyond the land.

        Computed for every fourth row and column.
        """
        rays, width = rays.rows(0, _lowest(rays)), len(rays.along_columns[0])
        height = len(rays.down_rows[0])
        if not height:
            return np.zeros((0, width, 4), np.uint8)
        rays = rays.thinned(_THINNED)
        if light is not self._light:
            self._mix(light)
        steepness: Image = np.maximum(rays.rise() / rays.length(), 0)
        index = (np.sqrt(steepness) * _STEPS).astype(np.uint8)
        distance = np.clip(rays.to_height(rays.origin[2] + _CLOUD_HEIGHT), 0, _FARTHEST_CLOUD)
        cover = np.take(self._levels, self._clouds.sample(rays, distance))
        cover *= np.take(self._clear, index)
        small = np.take(self._gradient, index, axis=0)
        small += cover[..., None] * (self._cloud - small)
        size = (width, _THINNED * len(small))
        large = cv2.resize(cv2.convertScaleAbs(small), size, interpolation=cv2.INTER_LINEAR)
        return np.asarray(large[:height], np.uint8)

    def _mix(self, light: Light) -> None:
        """Compute what depends on the light alone; all in blue, green, red, alpha, 0 to 255."""
        low, high, cloud = (np.append(255 * c[::-1], 255) for c in (light.horizon, light.zenith, light.cloud))
        self._gradient = (low + (high - low) * self._blend).astype(np.float32)
        self._cloud = cloud.astype(np.float32)
        edge = 0.78 - 0.6 * light.cloud_cover
        levels = np.clip((np.arange(256) / 255 - edge) / 0.35, 0, 1)
        levels = levels * min(4 * light.cloud_cover, 1.0) * (0.35 + 0.5 * light.cloud_cover)
        self._levels = levels.astype(np.float32)
        """How much cloud is seen, 0 to 1, where the clouds' noise has each value."""
        self._light = light


def _lowest(rays: Rays) -> int:
    """How many rows there are down to the last that looks beyond the land, and some more to blend with."""
    beyond = np.flatnonzero((rays.rise() * np.float32(_LAND_ENDS) >= -rays.origin[2]).any(axis=1))
    return min(int(beyond[-1]) + 2 * _THINNED, len(rays.down_rows[2])) if len(beyond) else 0
