"""Everything of the town that stands still and is nobody in particular, merged by place.

Objects that look alike are copies of one mesh, made all at once; the copies in a cell of the map then become one
geom per texture, with a simpler one for far away.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from panda3d.core import GeomNode, LODNode, NodePath, Texture

from carla_bridge.simulator.rendering.geoms import geom, surface_state
from carla_bridge.simulator.rendering.ground import SOLID_BIN
from carla_bridge.simulator.rendering.mesh import Mesh, join
from carla_bridge.simulator.rendering.piece import Piece
from carla_bridge.simulator.rendering.shapes import Shape, ShapeBook
from carla_bridge.simulator.rendering.textures import is_facade
from carla_bridge.simulator.scene import StaticObject

_CELL = 64.0
_Cell = tuple[int, int]
_Surface = tuple[str | None, bool]
"""Texture, and whether it shines: what a geom has in common."""


@dataclass(frozen=True)
class _Group:
    """Copies that are switched together."""

    cell: _Cell
    start: float
    end: float
    """Distances between which this level is drawn."""


def merge_anonymous(root: NodePath, things: Sequence[StaticObject], textures: Mapping[str, Texture]) -> None:
    """Put all objects without an id below `root`."""
    solids = root.attach_new_node("solids")
    solids.set_bin(SOLID_BIN, 0)
    groups: dict[_Group, dict[_Surface, list[Mesh]]] = defaultdict(lambda: defaultdict(list))
    for shape, alike in _alike(things):
        for pieces, start, end in _levels(shape, alike[0]):
            for piece in pieces:
                for cell, part in _copies(piece, alike, shape.elastic):
                    groups[_Group(cell, start, end)][piece.texture, piece.shining].append(part)
    for group, surfaces in groups.items():
        node = GeomNode("static")
        for (name, shining), meshes in surfaces.items():
            texture = textures[name] if name is not None else None
            node.add_geom(geom(join(meshes), textured=name is not None), surface_state(texture, shining))
        level = LODNode("level")
        level.add_switch(group.end + _CELL / 2, group.start + _CELL / 2 if group.start else 0)
        x, y = ((index + 0.5) * _CELL for index in group.cell)
        level.set_center((y, x, 0))
        solids.attach_new_node(level).attach_new_node(node)


def _alike(things: Sequence[StaticObject]) -> list[tuple[Shape, list[StaticObject]]]:
    """Objects that are copies of one mesh, each list in order of cells."""
    book = ShapeBook()
    found: dict[tuple[object, ...], list[StaticObject]] = defaultdict(list)
    for thing in things:
        if not thing.object_id:
            size = None if book.shape(thing.kind).elastic else thing.size
            found[thing.kind, size, thing.colour, thing.variant, thing.tag].append(thing)
    return [(book.shape(alike[0].kind), sorted(alike, key=_cell_of)) for alike in found.values()]


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


def _copies(piece: Piece, things: Sequence[StaticObject], stretched: bool) -> list[tuple[_Cell, Mesh]]:
    """Copies of a piece at the things' places, a mesh per cell."""
    places = [(thing.pose.x, thing.pose.y, thing.pose.z) for thing in things]
    yaws = [thing.pose.yaw for thing in things]
    scales = [thing.size for thing in things] if stretched else np.ones((len(things), 3))
    everywhere = piece.mesh.copies(places, yaws, scales)
    vertices, triangles = len(piece.mesh.points), len(piece.mesh.triangles)
    parts, start = [], 0
    for cell, members in groupby(things, key=_cell_of):
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


def _cell_of(thing: StaticObject) -> _Cell:
    return int(thing.pose.x // _CELL), int(thing.pose.y // _CELL)
