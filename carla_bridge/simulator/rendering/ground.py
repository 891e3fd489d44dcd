"""The flat ground, drawn first and in painter's order, so that coplanar layers cannot fight over depth.

It writes no depth at all: the depth of a ground pixel follows from its ray. Colours are plain here; grain, stains,
shadows and wetness are laid over the finished picture (see `composite`), which is cheaper and smoother than
textures of the software renderer.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np
from panda3d.core import CullBinManager, GeomNode, NodePath, ShadeModelAttrib

from carla_bridge.simulator.kinds import SurfaceKind
from carla_bridge.simulator.rendering.culling import Cell, CulledNodes, cell_at, placed
from carla_bridge.simulator.rendering.geoms import geom
from carla_bridge.simulator.rendering.mesh import Colour, Mesh, join, polygon, quads
from carla_bridge.simulator.scene import Surface
from carla_bridge.simulator.semantics import Tag

GROUND_BIN, SHADOW_BIN, SOLID_BIN = "ground", "shadow", "solid"
_CELL, _PAINT_CELL = 160.0, 64.0
_HORIZON = 2900.0

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
"""Thin paint is drawn a whole pixel wide at any distance, so far paint is left out: metres at focal length 416."""


def define_bins() -> None:
    """The order of drawing: ground, what darkens it, then solids from near to far."""
    manager = CullBinManager.get_global_ptr()
    for name, kind, sort in (
        (GROUND_BIN, CullBinManager.BT_fixed, 11),
        (SHADOW_BIN, CullBinManager.BT_fixed, 12),
        (SOLID_BIN, CullBinManager.BT_front_to_back, 13),
    ):
        if manager.find_bin(name) < 0:
            manager.add_bin(name, kind, sort)


def lay_ground(root: NodePath, surfaces: Sequence[Surface]) -> CulledNodes:
    """Nodes below `root` for all surfaces, grouped by layer and by place, over open land without end."""
    ground = root.attach_new_node("ground")
    ground.set_depth_test(False)
    ground.set_depth_write(False)
    ground.set_attrib(ShadeModelAttrib.make(ShadeModelAttrib.M_flat))
    land = GeomNode("land")
    land.add_geom(geom(_open_land()))
    ground.attach_new_node(land).set_bin(GROUND_BIN, 0)
    known = {kind.value: layer for layer, kind in enumerate(SurfaceKind, start=1)}
    groups: dict[tuple[int, Cell], list[Surface]] = defaultdict(list)
    for surface in surfaces:
        if surface.kind not in known:
            raise ValueError(f"the renderer has no colour for surfaces of kind {surface.kind!r}; add one to ground.py.")
        x, y = surface.points[0].tolist()
        edge = _PAINT_CELL if surface.kind in _PAINTED else _CELL
        groups[known[surface.kind], cell_at(x, y, edge)].append(surface)
    members = []
    for (layer, cell), alike in groups.items():
        kind = SurfaceKind(alike[0].kind)
        mesh = _flat(alike, _COLOURS[kind])
        make = partial(_layer, kind.value, mesh, layer)
        members.append(placed(make, [mesh], cell, 0.0, _PAINTED.get(kind, _HORIZON)))
    surfaces_path = ground.attach_new_node("surfaces")
    return CulledNodes(surfaces_path.node(), members)


def _layer(name: str, mesh: Mesh, layer: int) -> GeomNode:
    node = GeomNode(name)
    node.add_geom(geom(mesh))
    NodePath(node).set_bin(GROUND_BIN, layer)
    return node


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
