"""Soft shadows under what moves: one mesh for all actors, rewritten every tick, that darkens the ground's colours."""

import numpy as np
from numpy.typing import NDArray
from panda3d.core import ColorWriteAttrib, GeomNode, NodePath, TransparencyAttrib

from carla_bridge.simulator.rendering.actors import Scene
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.geoms import STREAM_VERTEX, stream_geom
from carla_bridge.simulator.rendering.ground import SHADOW_BIN
from carla_bridge.simulator.rendering.light import Light

_SOFT = 0.45
"""Width of the blurred edge in metres."""
_STEPS = np.array([-1.0, -1.0, 1.0, 1.0])
_OUTER = np.array([-1.0, 0.0, 0.0, 1.0])
_LOWEST_SUN = 0.35
"""Shadows grow no longer when the sun is lower than this, as the height of its direction."""
_REACH = 1 + 0.5 / _LOWEST_SUN
"""How far a shadow may reach from the actor's place, in radii."""
_FAINTEST, _DARKEST = 0.28, 0.6


class ContactShadows:
    """A four by four grid of vertices per actor: dark inside, clear at its rim."""

    def __init__(self, root: NodePath) -> None:
        self._node = GeomNode("shadows")
        path = root.attach_new_node(self._node)
        path.set_bin(SHADOW_BIN, 0)
        path.set_depth_test(False)
        path.set_depth_write(False)
        path.set_light_off(1)
        path.set_two_sided(True)
        path.set_transparency(TransparencyAttrib.M_alpha)
        red_green_blue = ColorWriteAttrib.C_red | ColorWriteAttrib.C_green | ColorWriteAttrib.C_blue
        path.set_attrib(ColorWriteAttrib.make(red_green_blue))

    def lay(self, scene: Scene, camera: Pinhole, light: Light) -> None:
        """Put a shadow under every actor that may be in view, pushed away from the sun."""
        self._node.remove_all_geoms()
        seen = np.flatnonzero(camera.sees(scene.positions, _REACH * scene.radii + 2 * _SOFT))
        count = len(seen)
        if not count:
            return
        positions, extents, axes = scene.positions[seen], scene.extents[seen], scene.axes[seen]
        half = extents[:, :2, None]
        along = half[:, 0] * _STEPS + _SOFT * _OUTER
        across = half[:, 1] * _STEPS + _SOFT * _OUTER
        forward, right = axes[:, :2, 0], axes[:, :2, 1]
        grid = along[:, :, None, None] * forward[:, None, None] + across[:, None, :, None] * right[:, None, None]
        push = np.zeros(2)
        if light.shadow > 0:
            push = -0.5 * light.to_sun[:2] / max(float(light.to_sun[2]), _LOWEST_SUN)
        middle = positions[:, :2] + push * extents[:, 2:]
        rows = np.zeros((count, 4, 4), STREAM_VERTEX)
        rows["point"][..., :2] = (grid + middle[:, None, None])[..., ::-1]
        rows["point"][..., 3] = 1
        rows["colour"][:, 1:3, 1:3, 3] = round(255 * min(_FAINTEST + 0.6 * light.shadow, _DARKEST)) / 255
        order = np.lexsort(positions.T)
        self._node.add_geom(stream_geom(rows[order].reshape(-1).view(np.float32).reshape(-1, 8), _index(count)))


def _index(count: int) -> NDArray[np.uint32]:
    corner = (4 * np.arange(3)[:, None] + np.arange(3)).reshape(-1, 1)
    square = (corner + np.array([0, 1, 5, 0, 5, 4])).reshape(-1)
    index: NDArray[np.uint32] = (16 * np.arange(count)[:, None] + square).astype(np.uint32)
    return index
