"""From what the engine drew to the finished picture: ground, sky and air, laid over whole images at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.engine import metres
from carla_bridge.simulator.rendering.light import Light
from carla_bridge.simulator.rendering.visible import Identified
from carla_bridge.simulator.scene import Picture
from carla_bridge.simulator.semantics import Tag

Image = NDArray[np.float32]
FARTHEST = 1000.0
"""CARLA's depth camera ends here; so does ours."""


@dataclass(frozen=True)
class Rays:
    """The view ray through every pixel's centre, scaled to one metre along the camera's axis."""

    x: Image
    y: Image
    z: Image


def rays(camera: Pinhole) -> Rays:
    right = ((np.arange(camera.width) + 0.5 - camera.width / 2) / camera.focal).astype(np.float32)
    up = ((camera.height / 2 - np.arange(camera.height) - 0.5) / camera.focal).astype(np.float32)[:, None]
    axes = camera.axes.astype(np.float32)
    x, y, z = (axes[k, 0] + up * axes[k, 2] + right * axes[k, 1] for k in range(3))
    return Rays(x, y, z)


def finish(drawn: Identified, camera: Pinhole, light: Light) -> Picture:
    ray = rays(camera)
    with np.errstate(divide="ignore"):
        ground = np.float32(-camera.position[2]) / ray.z
    ground[(ground < 0) | (ground > FARTHEST)] = FARTHEST
    depth = metres(drawn.steps)
    np.copyto(depth, ground, where=drawn.steps == 0)
    np.copyto(depth, np.float32(FARTHEST), where=drawn.codes == Tag.SKY)
    through = np.exp(-light.extinction * np.maximum(depth - light.clear_metres, 0))[..., None]
    haze = light.haze[::-1] * 255
    bgra = np.empty_like(drawn.colours)
    bgra[..., :3] = drawn.colours[..., :3] * through + haze * (1 - through)
    bgra[..., 3] = 255
    return Picture(bgra, drawn.tags, drawn.object_ids, depth)
