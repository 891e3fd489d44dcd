"""The view ray through every pixel of a picture, kept as rows and columns until an image is really needed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.camera import Pinhole

Image = NDArray[np.float32]


@dataclass(frozen=True)
class Rays:
    """Directions scaled to one metre along the camera's axis, for a band of rows."""

    origin: tuple[float, float, float]
    down_rows: tuple[Image, Image, Image]
    """(h, 1) each: the part of x, y, z that changes with the row."""
    along_columns: tuple[Image, Image, Image]
    """(w,) each: the part that changes with the column."""

    def rows(self, first: int, last: int) -> "Rays":
        band = slice(first, last)
        x, y, z = self.down_rows
        return Rays(self.origin, (x[band], y[band], z[band]), self.along_columns)

    def thinned(self, step: int) -> "Rays":
        """Every `step`-th row and column."""
        (x, y, z), (u, v, w) = self.down_rows, self.along_columns
        return Rays(self.origin, (x[::step], y[::step], z[::step]), (u[::step], v[::step], w[::step]))

    def rise(self) -> Image:
        """z of the rays: (h, 1) for a camera that does not roll, (h, w) otherwise."""
        if not self.along_columns[2].any():
            return self.down_rows[2]
        return self.down_rows[2] + self.along_columns[2]

    def nearness_of_ground(self) -> Image:
        """1 / metres along the axis to z = 0; not positive where the ray does not come down; shaped like `rise`."""
        return self.rise() * np.float32(-1 / max(self.origin[2], 1e-3))

    def to_height(self, height: float) -> Image:
        """Metres along the axis to the plane z = height; negative behind, shaped like `rise`."""
        rise = self.rise()
        level: Image = np.where(np.abs(rise) < 1e-6, np.float32(1e-6), rise)
        distance: Image = np.float32(height - self.origin[2]) / level
        return distance

    def reach(self, distance: Image, scale: float, offset: tuple[float, float]) -> tuple[Image, Image]:
        """x and y at the given distances along the axis, as (value - offset) * scale."""
        found = []
        for axis in (0, 1):
            start = np.float32((self.origin[axis] - offset[axis]) * scale)
            far = distance * np.float32(scale)
            image = far * self.along_columns[axis]
            image += far * self.down_rows[axis] + start
            found.append(image)
        return found[0], found[1]

    def length(self) -> Image:
        """(h, w) length of the direction vectors."""
        (x, y, z), (u, v, w) = self.down_rows, self.along_columns  # at right angles to each other
        squared: Image = (x * x + y * y + z * z) + (u * u + v * v + w * w)
        return np.sqrt(squared)


def rays_of(camera: Pinhole) -> Rays:
    """Rays through the pixels' centres."""
    right = (np.arange(camera.width) + 0.5 - camera.middle) / camera.focal
    up = (camera.height / 2 - np.arange(camera.height) - 0.5) / camera.focal
    ahead, aside, above = camera.axes.T[..., None]
    rows = (ahead + above * up).astype(np.float32)[..., None]
    columns = (aside * right).astype(np.float32)
    x, y, z = camera.position.tolist()
    return Rays((x, y, z), (rows[0], rows[1], rows[2]), (columns[0], columns[1], columns[2]))
