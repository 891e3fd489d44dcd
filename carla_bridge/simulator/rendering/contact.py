"""Soft shadows under what moves: one mesh for all actors, rewritten every tick, that darkens the ground's colours."""

import numpy as np
from panda3d.core import (
    ColorWriteAttrib,
    Geom,
    GeomEnums,
    GeomNode,
    GeomTriangles,
    GeomVertexData,
    GeomVertexFormat,
    NodePath,
    TransparencyAttrib,
)

from carla_bridge.simulator.rendering.actors import Scene
from carla_bridge.simulator.rendering.ground import SHADOW_BIN
from carla_bridge.simulator.rendering.light import Light

_VERTEX = np.dtype([("point", "3f4"), ("colour", "4u1")])
_SOFT = 0.45
"""Width of the blurred edge in metres."""
_STEPS = np.array([-1.0, -1.0, 1.0, 1.0])
_OUTER = np.array([-1.0, 0.0, 0.0, 1.0])
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

    def lay(self, scene: Scene, light: Light) -> None:
        """Put a shadow under every actor of the scene, pushed away from the sun."""
        self._node.remove_all_geoms()
        count = len(scene.moving)
        if not count:
            return
        half = scene.extents[:, :2, None]
        along = half[:, 0] * _STEPS + _SOFT * _OUTER
        across = half[:, 1] * _STEPS + _SOFT * _OUTER
        forward, right = scene.axes[:, :2, 0], scene.axes[:, :2, 1]
        grid = along[:, :, None, None] * forward[:, None, None] + across[:, None, :, None] * right[:, None, None]
        push = np.zeros(2)
        if light.shadow > 0:
            push = -0.5 * light.to_sun[:2] / max(float(light.to_sun[2]), 0.35)
        middle = scene.positions[:, :2] + push * scene.extents[:, 2:]
        rows = np.zeros((count, 4, 4), _VERTEX)
        rows["point"][..., :2] = (grid + middle[:, None, None])[..., ::-1]
        rows["colour"][:, 1:3, 1:3, 3] = round(255 * min(_FAINTEST + 0.6 * light.shadow, _DARKEST))
        order = np.lexsort(scene.positions.T)
        self._node.add_geom(_mesh(rows[order].reshape(-1), count))


def _mesh(rows: np.ndarray, count: int) -> Geom:
    vertices = GeomVertexData("shadows", GeomVertexFormat.get_v3c4(), Geom.UH_stream)
    vertices.unclean_set_num_rows(len(rows))
    vertices.modify_array_handle(0).copy_data_from(rows.tobytes())
    corner = (4 * np.arange(3)[:, None] + np.arange(3)).reshape(-1, 1)
    square = (corner + np.array([0, 1, 5, 0, 5, 4])).reshape(-1)
    index = (16 * np.arange(count)[:, None] + square).astype(np.uint32)
    faces = GeomTriangles(Geom.UH_stream)
    faces.set_index_type(GeomEnums.NT_uint32)
    handle = faces.modify_vertices()
    handle.unclean_set_num_rows(index.size)
    handle.modify_handle().copy_data_from(index.tobytes())
    made = Geom(vertices)
    made.add_primitive(faces)
    return made
