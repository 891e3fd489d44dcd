"""Sun and sky as the engine's lights."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from panda3d.core import AmbientLight, DirectionalLight, LVector3f, Material, NodePath

from carla_bridge.simulator.rendering.light import Light


class EngineLights:
    """Light on everything below a root: the sun, a weak light from the other side, and the sky all around."""

    def __init__(self, root: NodePath) -> None:
        white = Material("white")
        white.set_ambient((1, 1, 1, 1))
        white.set_diffuse((1, 1, 1, 1))
        root.set_material(white)
        self._ambient = AmbientLight("sky")
        self._sun = DirectionalLight("sun")
        self._fill = DirectionalLight("fill")
        for lamp in (self._ambient, self._sun, self._fill):
            root.set_light(root.attach_new_node(lamp))

    def apply(self, light: Light) -> None:
        """Take colours and direction from the weather."""
        x, y, z = light.to_sun.tolist()
        self._ambient.set_color((*(0.9 * light.ambient).tolist(), 1))
        self._sun.set_color((*light.sun.tolist(), 1))
        self._sun.set_direction(LVector3f(-y, -x, -max(z, 0.05)))
        self._fill.set_color((*(0.3 * light.ambient).tolist(), 1))
        self._fill.set_direction(LVector3f(0.35 * y, 0.35 * x, -1))


@dataclass(frozen=True)
class BakedLight:
    """The same lights for static objects: computed once per change of light, in steps too fine to be seen."""

    sky: tuple[float, ...]
    sun: tuple[float, ...]
    to_sun: tuple[float, ...]

    def on(self, normals: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 3) red, green, blue by which surfaces with these normals (CARLA's axes) are multiplied."""
        x, y, z = self.to_sun
        sky, sun = np.array(self.sky, np.float32), np.array(self.sun, np.float32)
        from_sun = np.array([x, y, max(z, 0.05)], np.float32)
        from_side = np.array([-0.35 * x, -0.35 * y, 1], np.float32)
        bright = np.maximum(normals @ (from_sun / np.linalg.norm(from_sun)), 0)
        filled = np.maximum(normals @ (from_side / np.linalg.norm(from_side)), 0)
        level: NDArray[np.float32] = np.float32(0.9) * sky + np.outer(np.float32(0.3) * filled, sky)
        level += np.outer(bright, sun)
        return level


def baked(light: Light) -> BakedLight:
    """The light in steps of half a percent and of one degree."""

    def steps(values: list[float], count: int) -> tuple[float, ...]:
        return tuple(round(value * count) / count for value in values)

    sky, sun, to_sun = light.ambient.tolist(), light.sun.tolist(), light.to_sun.tolist()
    return BakedLight(steps(sky, 200), steps(sun, 200), steps(to_sun, 60))
