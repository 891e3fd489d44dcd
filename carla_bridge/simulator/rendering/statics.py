"""All static objects of the town without an id, merged by place.

Objects that look alike are copies of one mesh, made all at once; the copies in a cell of the map are shown together,
with simpler ones for far away. Every building is its own cell.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from panda3d.core import GeomNode, NodePath, RenderState, Texture

from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.culling import Cell, Culling, cell_at, placed
from carla_bridge.simulator.rendering.engine_lights import BakedLight
from carla_bridge.simulator.rendering.geoms import Stream, joined, stream, surface_state
from carla_bridge.simulator.rendering.ground import SCENERY_BIN
from carla_bridge.simulator.rendering.mesh import Mesh, Piece, join
from carla_bridge.simulator.rendering.occlusion import Screen
from carla_bridge.simulator.rendering.shapes import Shape, ShapeTable
from carla_bridge.simulator.rendering.textures import LEAVES, is_facade
from carla_bridge.simulator.scene import StaticObject

_CELL, _CITY_CELL = 96.0, 40.0
"""Edge of a cell on open land, and where houses hide what is behind them."""
_Surface = tuple[str | None, bool]
"""Texture, and whether it shines: what a geom has in common."""


@dataclass(frozen=True)
class _Group:
    """Copies that are shown together, when the cell is between two distances."""

    cell: Cell
    start: float
    end: float


class StaticScenery:
    """All objects without an id; the visible parts of a surface are one mesh, near to far, remade when they change."""

    def __init__(self, root: NodePath, things: Sequence[StaticObject], textures: Mapping[str, Texture]) -> None:
        path = root.attach_new_node("scenery")
        path.set_light_off(1)
        groups = _grouped([thing for thing in things if not thing.object_id])
        self._meshes = list(groups.values())
        places = [
            placed([mesh for same in surfaces.values() for mesh in same], group.cell, group.start, group.end)
            for group, surfaces in groups.items()
        ]
        self._culling = Culling(places, nearest_first=True)
        self._nodes: dict[_Surface, GeomNode] = {}
        self._states: dict[_Surface, RenderState] = {}
        for surface in sorted({surface for surfaces in self._meshes for surface in surfaces}, key=_drawing_order):
            node = path.attach_new_node(GeomNode("surface"))
            node.set_bin(SCENERY_BIN, len(self._nodes))
            name, shining = surface
            texture = textures[name] if name is not None else None
            self._nodes[surface], self._states[surface] = node.node(), surface_state(texture, shining, name == LEAVES)
        self._lit: dict[int, dict[_Surface, Stream]] = {}
        """By member, once it has been seen in this light."""
        self._light: BakedLight | None = None
        self._shown: list[int] = []
        self._drawn: dict[_Surface, list[Stream]] = {}

    def show(self, camera: Pinhole, screen: Screen, light: BakedLight) -> None:
        """Leave in the scene only what this camera may see."""
        seen = self._culling.seen(camera, screen)
        if seen == self._shown and light == self._light:
            return
        if light != self._light:
            self._light = light
            self._lit.clear()
        self._shown = seen
        drawn: dict[_Surface, list[Stream]] = {surface: [] for surface in self._nodes}
        for member in seen:
            if member not in self._lit:
                self._lit[member] = {
                    surface: _lit(surface, meshes, light) for surface, meshes in self._meshes[member].items()
                }
            for surface, part in self._lit[member].items():
                drawn[surface].append(part)
        for surface, parts in drawn.items():
            if parts != self._drawn.get(surface):
                node = self._nodes[surface]
                node.remove_all_geoms()
                if parts:
                    node.add_geom(joined(parts), self._states[surface])
        self._drawn = drawn


def _grouped(things: Sequence[StaticObject]) -> dict[_Group, dict[_Surface, list[Mesh]]]:
    groups: dict[_Group, dict[_Surface, list[Mesh]]] = defaultdict(lambda: defaultdict(list))
    for shape, alike in _alike(things):
        for pieces, start, end in _levels(shape, alike[0][1]):
            for piece in pieces:
                for cell, part in _copies(piece, alike, shape.elastic):
                    groups[_Group(cell, start, end)][piece.texture, piece.shining].append(part)
    return groups


def _alike(things: Sequence[StaticObject]) -> list[tuple[Shape, list[tuple[Cell, StaticObject]]]]:
    """Objects that are copies of one mesh, with their cells, in order of cells."""
    shapes = ShapeTable()
    large = [(t.pose.x, t.pose.y) for t in things if shapes.shape(t.kind).alone]
    low, high = (np.min(large, axis=0), np.max(large, axis=0)) if large else (np.zeros(2), np.zeros(2))
    found: dict[tuple[object, ...], list[tuple[Cell, StaticObject]]] = defaultdict(list)
    for thing in things:
        shape, x, y = shapes.shape(thing.kind), thing.pose.x, thing.pose.y
        if shape.alone:
            cell = Cell(x, y, max(thing.size[:2]) / 2)
        else:
            cell = cell_at(x, y, _CITY_CELL if low[0] < x < high[0] and low[1] < y < high[1] else _CELL)
        size = None if shape.elastic else thing.size
        found[thing.kind, size, thing.colour, thing.variant, thing.tag].append((cell, thing))
    return [(shapes.shape(alike[0][1].kind), sorted(alike, key=_place)) for alike in found.values()]


def _place(pair: tuple[Cell, StaticObject]) -> tuple[float, float]:
    return pair[0].x, pair[0].y


def _first(pair: tuple[Cell, StaticObject]) -> Cell:
    return pair[0]


def _levels(shape: Shape, thing: StaticObject) -> list[tuple[list[Piece], float, float]]:
    """Pieces with their codes, and from where to where they are drawn."""
    model = replace(thing, size=(1.0, 1.0, 1.0)) if shape.elastic else thing
    near = [_coded(piece, thing.tag) for piece in shape.near(model)]
    if shape.far is None:
        return [(near, 0.0, shape.reach)]
    far = [_coded(piece, thing.tag) for piece in shape.far(model)]
    return [(near, 0.0, shape.detail), (far, shape.detail, shape.reach)]


def _coded(piece: Piece, tag: int) -> Piece:
    """The tag in the alpha; textures take one off on the way, facades bring their own codes."""
    if piece.texture is None:
        return replace(piece, mesh=piece.mesh.coded(tag))
    return piece if is_facade(piece.texture) else replace(piece, mesh=piece.mesh.coded(tag + 1))


def _copies(piece: Piece, alike: Sequence[tuple[Cell, StaticObject]], stretched: bool) -> list[tuple[Cell, Mesh]]:
    """Copies of a piece at the things' places, a mesh per cell."""
    things = [thing for _, thing in alike]
    places = [(thing.pose.x, thing.pose.y, thing.pose.z) for thing in things]
    yaws = [thing.pose.yaw for thing in things]
    scales = [thing.size for thing in things] if stretched else np.ones((len(things), 3))
    everywhere = piece.mesh.copies(places, yaws, scales)
    vertices, triangles = len(piece.mesh.points), len(piece.mesh.triangles)
    parts, start = [], 0
    for cell, members in groupby(alike, key=_first):
        count = len(list(members))
        rows = slice(start * vertices, (start + count) * vertices)
        mesh = Mesh(
            everywhere.points[rows],
            everywhere.normals[rows],
            everywhere.colours[rows],
            everywhere.uv[rows],
            everywhere.triangles[: count * triangles],
        )
        parts.append((cell, mesh))
        start += count
    return parts


def _drawing_order(surface: _Surface) -> tuple[bool, bool, str, bool]:
    """Textures are slow, leaves hide the least: what is drawn late is often hidden already."""
    name, shining = surface
    return name == LEAVES, name is not None, name or "", shining


def _lit(surface: _Surface, meshes: Sequence[Mesh], light: BakedLight) -> Stream:
    name, shining = surface
    mesh = join(meshes)
    if not shining:
        mesh.colours[:, :3] = np.minimum(mesh.colours[:, :3] * light.on(mesh.normals), 255)
    return stream(mesh, textured=name is not None)
