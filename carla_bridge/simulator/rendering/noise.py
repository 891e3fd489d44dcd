"""Seamless random clouds of numbers, for stains on the road, patches in the grass and clouds in the sky."""

import cv2
import numpy as np
from numpy.typing import NDArray


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
    tile: NDArray[np.float32] = np.clip(0.5 + 0.5 * total / spread, 0, 1).astype(np.float32)
    return tile
