"""The flat ground, drawn first and in painter's order, so that coplanar layers cannot fight over depth.

It writes no depth at all: the depth of a ground pixel follows from its ray. Colours are plain here; grain, stains,
shadows and wetness are laid over the finished picture (see `composite`), which is cheaper and smoother than
textures of the software renderer.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from panda3d.core import CullBinManager, GeomNode, NodePath, ShadeModelAttrib

from carla_bridge.simulator.catalogue.kinds import SurfaceKind
from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.culling import Cell, Culling, cell_at, placed
from carla_bridge.simulator.rendering.engine_lights import BakedLight
from carla_bridge.simulator.rendering.geoms import joined, shares, stream
from carla_bridge.simulator.rendering.mesh import Colour, Mesh, join, polygon, quads
from carla_bridge.simulator.rendering.occlusion import Screen
from carla_bridge.simulator.scene import Surface

GROUND_BIN, SOLID_BIN, SCENERY_BIN = "ground", "solid", "scenery"
_CELL, _PAINT_CELL = 160.0, 64.0
_HORIZON = 2900.0
_UP = np.array([[0, 0, 1]], np.float32)

_COLOURS: dict[SurfaceKind, Colour] = {
    SurfaceKind.GRASS: (98, 118, 62),
    SurfaceKind.FIELD: (150, 140, 82),
    SurfaceKind.PLAZA: (140, 134, 126),
    SurfaceKind.LAWN: (88, 124, 58),
    SurfaceKind.PAVEMENT: (158, 154, 148),
    SurfaceKind.CARRIAGEWAY: (92, 92, 96),
    SurfaceKind.CORNER: (158, 154, 148),
    SurfaceKind.PARKING: (104, 102, 102),
    SurfaceKind.HIGHWAY: (112, 112, 114),
    SurfaceKind.SHOULDER: (126, 124, 120),
    SurfaceKind.CROSSING: (222, 222, 216),
    SurfaceKind.LINE_WHITE: (226, 226, 222),
    SurfaceKind.LINE_YELLOW: (214, 176, 60),
}
_PAINTED = {SurfaceKind.CROSSING: 140.0, SurfaceKind.LINE_WHITE: 150.0, SurfaceKind.LINE_YELLOW: 150.0}
"""Thin paint is drawn a whole pixel wide at any distance, so far paint is left out: metres at focal length 208."""


def define_bins() -> None:
    """The order of drawing: ground, then instances from near to far, then scenery, which comes sorted."""
    manager = CullBinManager.get_global_ptr()
    for name, kind, sort in (
        (GROUND_BIN, CullBinManager.BT_fixed, 11),
        (SOLID_BIN, CullBinManager.BT_front_to_back, 12),
        (SCENERY_BIN, CullBinManager.BT_fixed, 13),
    ):
        if manager.find_bin(name) < 0:
            manager.add_bin(name, kind, sort)


class Ground:
    """All surfaces in order of their layers; those in view become one mesh, in the light of the moment."""

    def __init__(self, root: NodePath, surfaces: Sequence[Surface]) -> None:
        self._node = GeomNode("ground")
        ground = root.attach_new_node(self._node)
        ground.set_bin(GROUND_BIN, 0)
        ground.set_depth_test(False)
        ground.set_depth_write(False)
        ground.set_light_off(1)
        ground.set_attrib(ShadeModelAttrib.make(ShadeModelAttrib.M_flat))
        layers = {kind.value: layer for layer, kind in enumerate(SurfaceKind)}
        groups: dict[tuple[int, Cell], list[Surface]] = defaultdict(list)
        for surface in surfaces:
            if surface.kind not in layers:
                raise ValueError(
                    f"the renderer has no colour for surfaces of kind {surface.kind!r}; add one to ground.py."
                )
            x, y = surface.points[0].tolist()
            edge = _PAINT_CELL if surface.kind in _PAINTED else _CELL
            groups[layers[surface.kind], cell_at(x, y, edge)].append(surface)
        land = _open_land()
        meshes, members = [land], [placed([land], Cell(0, 0, _HORIZON), 0.0, _HORIZON)]
        for (_, cell), alike in sorted(groups.items(), key=lambda group: group[0][0]):
            kind = SurfaceKind(alike[0].kind)
            meshes.append(_flat(alike, _COLOURS[kind]))
            members.append(placed(meshes[-1:], cell, 0.0, _PAINTED.get(kind, _HORIZON)))
        self._culling = Culling(members)
        self._plain = [mesh.colours[:, :3] for mesh in meshes]
        self._streams = [stream(mesh, textured=False) for mesh in meshes]
        self._shown: tuple[list[int], BakedLight | None] = ([], None)

    def show(self, camera: Pinhole, screen: Screen, light: BakedLight) -> None:
        """Leave in the scene what this camera may see."""
        key = self._culling.seen(camera, screen), light
        if key == self._shown:
            return
        if key[1] != self._shown[1]:
            level = light.on(_UP)
            for plain, part in zip(self._plain, self._streams, strict=True):
                part.colours[:, :3] = shares(np.minimum(plain * level, 255).astype(np.uint8))
        self._shown = key
        self._node.remove_all_geoms()
        if key[0]:
            self._node.add_geom(joined([self._streams[member] for member in key[0]]))


def _flat(surfaces: Sequence[Surface], colour: Colour) -> Mesh:
    """All surfaces as one mesh: quads at once, other polygons one by one."""
    meshes = []
    four = [surface for surface in surfaces if len(surface.points) == 4]
    if four:
        corners = np.zeros((len(four), 4, 3), np.float32)
        corners[:, :, :2] = [surface.points for surface in four]
        mesh = quads(corners, colour, outward_from=(0, 0, -1e6))
        mesh.colours[:, 3] = np.repeat([surface.tag for surface in four], 4)
        meshes.append(mesh)
    for surface in surfaces:
        if len(surface.points) != 4:
            points = np.column_stack([surface.points, np.zeros(len(surface.points))])
            meshes.append(polygon(points, colour, (0, 0, 1)).coded(surface.tag))
    return join(meshes)


def _open_land() -> Mesh:
    low, high = -_HORIZON, _HORIZON
    plane = [[(low, low, 0), (high, low, 0), (high, high, 0), (low, high, 0)]]
    return quads(plane, _COLOURS[SurfaceKind.GRASS], outward_from=(0, 0, -1)).coded(Tag.TERRAIN)
