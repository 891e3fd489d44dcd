"""What the depth image says about an instance mask: an object cannot be seen where something is nearer than it.

Servers before CARLA 0.9.16 are known to draw instance masks through parts of the terrain.
"""

from collections.abc import Mapping
from typing import cast

import carla
import numpy as np
from numpy.typing import NDArray

FARTHEST = 1000.0
"""Metres at which CARLA's depth image reaches its maximum."""
MARGIN = 2.0
"""Metres that a pixel may be nearer than its object's bounding box: what sticks out of it, and an image that is a step
early or late."""
_PEDESTRIAN, _LAST_VEHICLE = 12, 19
"""The tags of walkers, riders and vehicles, whose places are known."""
_IDS = 65536


def without_hidden(
    mask: NDArray[np.uint8], depth: NDArray[np.uint8], nearest: Mapping[int, float]
) -> NDArray[np.uint8]:
    """A copy of a raw mask without the pixels of vehicles and walkers in front of which the depth image has something.

    `nearest` has the least distance of each actor's bounding box along the camera's axis, by its id. Instances that are
    no actors are left as they are, because nobody knows where they are.
    """
    least = np.full(_IDS, -np.inf, dtype=np.float32)
    for actor, distance in nearest.items():
        known = least[actor % _IDS]
        least[actor % _IDS] = distance if np.isneginf(known) else min(known, distance)
    ids = mask[..., 1].astype(np.int64) | mask[..., 0].astype(np.int64) << 8
    moving = (mask[..., 2] >= _PEDESTRIAN) & (mask[..., 2] <= _LAST_VEHICLE)
    hidden = moving & (metres(depth) < least[ids] - MARGIN)
    left = mask.copy()
    left[hidden] = 0
    return left


def metres(depth: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Distances along the camera's axis of a raw BGRA depth image."""
    code = depth[..., 2] + np.float32(256) * depth[..., 1] + np.float32(65536) * depth[..., 0]
    found: NDArray[np.float32] = code * np.float32(FARTHEST / (256**3 - 1))
    return found


class ActorDistances:
    """How far vehicles and walkers are at least from a camera, along its axis."""

    def __init__(self, world: carla.World) -> None:
        self._world = world
        self._boxes: dict[int, carla.BoundingBox | None] = {}

    def nearest(self, camera: carla.Transform) -> dict[int, float]:
        """By id, of all that are in the world at its last step."""
        snapshot = self._world.get_snapshot()
        self._look_up([actor.id for actor in snapshot if actor.id not in self._boxes])
        axis = _vector(camera.get_forward_vector())
        origin = float(axis @ _vector(camera.location))
        found = {}
        for actor in snapshot:
            box = self._boxes[actor.id]
            if box is not None:
                pose = np.array(actor.get_transform().get_matrix())
                middle = pose[:3, :3] @ _vector(box.location) + pose[:3, 3]
                reach = float(np.abs(axis @ pose[:3, :3]) @ _vector(box.extent))
                found[actor.id] = float(axis @ middle) - origin - reach
        return found

    def _look_up(self, ids: list[int]) -> None:
        if not ids:
            return
        self._boxes |= dict.fromkeys(ids)
        for actor in cast("list[carla.Actor]", self._world.get_actors(ids)):
            if isinstance(actor, carla.Vehicle | carla.Walker):
                self._boxes[actor.id] = actor.bounding_box


def _vector(place: carla.Vector3D | carla.Location) -> NDArray[np.float64]:
    return np.array([place.x, place.y, place.z])
