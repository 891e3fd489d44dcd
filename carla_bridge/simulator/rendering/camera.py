"""CARLA's pinhole camera and Unreal's rotation order, as arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors.posing import rotation
from carla_bridge.simulator.scene import CameraView

Floats = NDArray[np.float64]


def rotations(degrees: Floats) -> Floats:
    """(n, 3) pitch, yaw, roll to (n, 3, 3) matrices whose columns are forward, right and up.

    Pitch is nose up, yaw clockwise from above, roll right side down; applied in Unreal's order.
    """
    angles = np.radians(degrees).T
    (sp, sy, sr), (cp, cy, cr) = np.sin(angles), np.cos(angles)
    if not (sp.any() or sr.any()):
        return _turned(cy, sy)
    matrix = np.empty((len(degrees), 3, 3))
    matrix[:, 0, 0] = cp * cy
    matrix[:, 1, 0] = cp * sy
    matrix[:, 2, 0] = sp
    matrix[:, 0, 1] = cy * sp * sr - sy * cr
    matrix[:, 1, 1] = sy * sp * sr + cy * cr
    matrix[:, 2, 1] = -cp * sr
    matrix[:, 0, 2] = -cy * sp * cr - sy * sr
    matrix[:, 1, 2] = -sy * sp * cr + cy * sr
    matrix[:, 2, 2] = cp * cr
    return matrix


def _turned(cy: Floats, sy: Floats) -> Floats:
    """The matrices of upright things, as almost everything is."""
    matrix = np.zeros((len(cy), 3, 3))
    matrix[:, 0, 0] = matrix[:, 1, 1] = cy
    matrix[:, 1, 0] = sy
    matrix[:, 0, 1] = -sy
    matrix[:, 2, 2] = 1.0
    return matrix


@dataclass(frozen=True)
class Pinhole:
    """A view or a strip of it as a pinhole camera: its place, its axes, and its focal length in picture pixels."""

    width: int
    height: int
    focal: float
    middle: float
    """The column straight ahead, which may lie outside a strip."""
    position: Floats
    axes: Floats
    """(3, 3), columns forward, right, up in the world."""

    @cached_property
    def _outward(self) -> Floats:
        """(5, 3): unit normals, in the world, of the planes that bound the view; the first looks backwards."""
        west, east = self.middle / self.focal, (self.width - self.middle) / self.focal
        along = self.height / 2 / self.focal
        local = np.array([(-1, 0, 0), (-west, -1, 0), (-east, 1, 0), (-along, 0, 1), (-along, 0, -1)])
        local /= np.sqrt((local * local).sum(axis=1, keepdims=True))
        outward: Floats = local @ self.axes.T
        return outward

    def sees(self, centres: Floats, radii: Floats) -> NDArray[np.bool_]:
        """Which spheres reach into the view (never says no to one that does)."""
        beyond = self._outward @ (centres - self.position).T
        inside: NDArray[np.bool_] = np.maximum.reduce(beyond) < radii
        return inside


def pinhole(view: CameraView) -> Pinhole:
    """The camera of a view: focal length w / (2 tan(fov / 2)), principal point in the middle of the whole width."""
    pose = view.pose
    return Pinhole(
        len(view.shown),
        view.height,
        view.width / (2 * np.tan(np.radians(view.fov) / 2)),
        view.width / 2 - view.shown.start,
        np.array([pose.x, pose.y, pose.z]),
        rotation(pose),
    )
