"""Seamless fractal noise, for stains on the road, patches in the grass and clouds in the sky."""

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.rays import Image, Rays


def fractal_tile(size: int, octaves: tuple[int, ...], roughness: float, seed: int) -> NDArray[np.float32]:
    """(size, size) in 0..1 with mean 1/2 that repeats without a seam; octaves are cells per tile."""
    rng = np.random.default_rng(seed)
    total = np.zeros((size, size), np.float32)
    weight = 1.0
    for cells in octaves:
        grid = np.pad(rng.random((cells, cells), np.float32), 2, mode="wrap")
        scale = size // cells
        smooth = cv2.resize(grid, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        total += weight * smooth[2 * scale : 2 * scale + size, 2 * scale : 2 * scale + size]
        weight *= roughness
    total -= total.mean()
    spread = 2.2 * total.std()
    level: NDArray[np.float32] = np.clip(0.5 + 0.5 * total / spread, 0, 1).astype(np.float32)
    return level


class WrappedTile:
    """A tile repeated far enough around the viewer that looking it up needs no wrapping, which is slow."""

    def __init__(self, tile: NDArray[np.float32], metres_per_cell: float, reach: float) -> None:
        size = len(tile)
        self._period = size * metres_per_cell
        self._scale = 1 / metres_per_cell
        self._margin = int(np.ceil(reach / self._period)) * self._period
        times = round(2 * self._margin / self._period) + 2
        self._image = np.tile(np.round(255 * tile).astype(np.uint8), (times, times))

    def sample(self, rays: Rays, distance: Image) -> NDArray[np.uint8]:
        """The tile's value, 0 to 255, where each ray is at its distance."""
        x, y, _ = rays.origin
        corner = (x - x % self._period - self._margin, y - y % self._period - self._margin)
        across, along = rays.reach(distance, self._scale, corner)
        return np.asarray(cv2.remap(self._image, across, along, cv2.INTER_NEAREST), np.uint8)
