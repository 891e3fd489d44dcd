"""What lies on the ground: shadows, stains, grain and water, looked up for whole images of ground pixels."""

from dataclasses import dataclass

import cv2
import numpy as np

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.light import Light
from carla_bridge.simulator.rendering.noise import WrappedTile, fractal_tile
from carla_bridge.simulator.rendering.rays import Image, Rays
from carla_bridge.simulator.rendering.shade import METRES_PER_CELL, PLAIN, GroundPlan
from carla_bridge.simulator.rendering.visible import IdentifiedFrame
from carla_bridge.simulator.scene import Town

_FARTHEST = 1000.0
_GRAIN_METRES = 0.03
_GRAIN_FADES = 20.0
"""Metres beyond which the ground's grain is finer than a pixel."""
_SOAKING = {Tag.ROAD: 1.0, Tag.ROAD_LINE: 0.8, Tag.SIDEWALK: 0.7, Tag.GROUND: 0.7}


@dataclass(frozen=True)
class Cover:
    """What a camera would see lying on the ground if nothing stood on it."""

    band: slice
    """The rows that look down."""
    factor: Image
    """By which shadows, stains and grain change the brightness of each of their pixels."""
    distance: Image
    """Metres to the ground, shaped like a ray's rise."""


class GroundCover:
    """Changes the colours of ground pixels."""

    def __init__(self, town: Town) -> None:
        self._plan = GroundPlan(town)
        grain = fractal_tile(256, (32, 64, 128, 256), 1.0, seed=3)
        self._grain = WrappedTile(grain, _GRAIN_METRES, reach=2 * _GRAIN_FADES)
        self._soaks = np.zeros(256, np.float32)
        for tag, share in _SOAKING.items():
            self._soaks[tag] = share

    def cover(self, rays: Rays, light: Light) -> Cover | None:
        """What lies on the ground; None if the camera does not look down."""
        rows = np.flatnonzero((rays.rise() < 0).any(axis=1))
        if not len(rows):
            return None
        band = slice(int(rows[0]), int(rows[-1]) + 1)
        ground = rays.rows(band.start, band.stop)
        distance = ground.to_height(0.0)
        distance = np.where((distance < 0) | (distance > _FARTHEST), np.float32(_FARTHEST), distance)
        factor = self._tone(ground, distance, light)
        self._add_grain(factor, ground, distance)
        return Cover(band, factor, distance)

    def lay(self, cover: Cover, gain: Image, drawn: IdentifiedFrame, light: Light) -> Image | None:
        """Multiply the gain of ground pixels by what lies there.

        Returns how far wet ones mirror the sky, the more the farther, or None if all is dry.
        """
        band, factor, solid = cover.band, cover.factor, drawn.steps[cover.band] > 0
        mirror = None
        if light.wetness > 0:
            soaked = np.take(self._soaks * np.float32(light.wetness), drawn.codes[band])
            factor *= 1 - np.float32(0.42) * soaked
            mirror = np.zeros_like(gain)
            mirror[band] = soaked * np.clip(0.06 + cover.distance * np.float32(0.011), 0, 0.42)
            mirror[band][solid] = 0
        np.copyto(factor, np.float32(1), where=solid)
        gain[band] *= factor
        return mirror

    def _tone(self, ground: Rays, distance: Image, light: Light) -> Image:
        """Shadows and stains, computed for every other row and column."""
        thin = ground.thinned(2)
        x, y = thin.reach(distance[::2, ::2], 1 / METRES_PER_CELL, self._plan.origin)
        tone = cv2.remap(self._plan.under(light), x, y, cv2.INTER_LINEAR, borderValue=PLAIN)
        size = (len(ground.along_columns[0]), len(ground.down_rows[0]))
        return cv2.resize(tone, size, interpolation=cv2.INTER_LINEAR) * np.float32(1 / PLAIN)

    def _add_grain(self, factor: Image, ground: Rays, distance: Image) -> None:
        """Grain on the rows that are near enough to show it."""
        near = np.flatnonzero((distance < _GRAIN_FADES).any(axis=1))
        if not len(near):
            return
        band = slice(int(near[0]), int(near[-1]) + 1)
        tile = self._grain.sample(ground.rows(band.start, band.stop), distance[band])
        strength = np.float32(0.22 / 255) * np.clip(1 - distance[band] / _GRAIN_FADES, 0, 1)
        factor[band] *= (tile.astype(np.float32) - np.float32(127.5)) * strength + np.float32(1)
