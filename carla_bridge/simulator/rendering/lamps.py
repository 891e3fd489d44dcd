"""Sun and sky as the engine's lights."""

from math import hypot

import numpy as np
from panda3d.core import AmbientLight, DirectionalLight, LVector3f, Material, NodePath

from carla_bridge.simulator.rendering.light import Light, Rgb


class Lamps:
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

    def shine(self, light: Light) -> None:
        """Take colours and direction from the weather."""
        x, y, z = light.to_sun.tolist()
        self._ambient.set_color((*(0.9 * light.ambient).tolist(), 1))
        self._sun.set_color((*light.sun.tolist(), 1))
        self._sun.set_direction(LVector3f(-y, -x, -max(z, 0.05)))
        self._fill.set_color((*(0.3 * light.ambient).tolist(), 1))
        self._fill.set_direction(LVector3f(0.35 * y, 0.35 * x, -1))


def brightness_of_ground(light: Light) -> Rgb:
    """What the same lamps give to a level surface: red, green, blue."""
    x, y, z = light.to_sun.tolist()
    high = max(z, 0.05)
    sunk = high / hypot(x, y, high)
    filled = 1 / hypot(0.35 * x, 0.35 * y, 1)
    level: Rgb = (0.9 + 0.3 * filled) * light.ambient + sunk * light.sun
    return level.astype(np.float32)
