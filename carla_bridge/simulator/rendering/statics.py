"""Everything of the town that stands still: merged by place where it is nobody, kept apart where it has an id."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from panda3d.core import GeomNode, LODNode, NodePath, PandaNode, RenderState, Texture, TextureAttrib

from carla_bridge.simulator.rendering.geoms import geom
from carla_bridge.simulator.rendering.ground import SOLID_BIN
from carla_bridge.simulator.rendering.mesh import Mesh, join
from carla_bridge.simulator.rendering.shapes import pieces_of, reach_of
from carla_bridge.simulator.scene import StaticObject

CELL = 64.0


@dataclass(frozen=True)
class StaticInstances:
    """Traffic lights, signs and parked cars: each its own node, chosen per picture."""

    looks: list[tuple[PandaNode, ...]]
    """One node per look: of a traffic light one per state, of others near and far."""
    is_traffic_light: NDArray[np.bool_]
    centres: NDArray[np.float64]
    radii: NDArray[np.float64]
    thickness: NDArray[np.float64]
    """The smaller visible dimension: below two pixels it is not drawn."""
    tags: NDArray[np.uint8]
    object_ids: NDArray[np.uint16]


def merge_anonymous(root: NodePath, things: Sequence[StaticObject], facades: Sequence[Texture]) -> None:
    """Put all objects without an id below `root`, merged by cell, drawing distance and texture."""
    solids = root.attach_new_node("solids")
    solids.set_bin(SOLID_BIN, 0)
    groups: dict[tuple[int, int, float], dict[int | None, list[Mesh]]] = defaultdict(lambda: defaultdict(list))
    for thing in things:
        if thing.object_id:
            continue
        key = (int(thing.pose.x // CELL), int(thing.pose.y // CELL), reach_of(thing))
        for piece in pieces_of(thing):
            mesh = placed(piece.mesh, thing)
            groups[key][piece.facade].append(mesh if piece.facade is not None else mesh.coded(thing.tag))
    for (_, _, reach), by_facade in groups.items():
        node = GeomNode("cell")
        for facade, meshes in by_facade.items():
            state = RenderState.make_empty()
            if facade is not None:
                state = RenderState.make(TextureAttrib.make(facades[facade]))
            node.add_geom(geom(join(meshes), textured=facade is not None), state)
        detail = LODNode("within reach")
        detail.add_switch(reach + CELL / 2, 0)
        detail.set_center(node.get_bounds().get_center())
        solids.attach_new_node(detail).attach_new_node(node)


def placed(mesh: Mesh, thing: StaticObject) -> Mesh:
    """The mesh at the object's place in the world (static things only turn about z)."""
    pose = thing.pose
    return mesh.turned(pose.yaw).moved((pose.x, pose.y, pose.z))


def separate_instances(things: Sequence[StaticObject]) -> StaticInstances:
    """A node for every object that has an id."""
    named = [thing for thing in things if thing.object_id]
    sizes = np.array([thing.size for thing in named]).reshape(-1, 3)
    centres = np.array([(t.pose.x, t.pose.y, t.pose.z) for t in named]).reshape(-1, 3)
    centres[:, 2] += sizes[:, 2] / 2
    return StaticInstances(
        [_looks(thing) for thing in named],
        np.array([thing.kind == "traffic_light" for thing in named], bool),
        centres,
        np.linalg.norm(sizes, axis=1) / 2,
        np.minimum(sizes[:, 2], sizes[:, :2].max(axis=1, initial=0)),
        np.array([thing.tag for thing in named], np.uint8),
        np.array([thing.object_id for thing in named], np.uint16),
    )


def _looks(thing: StaticObject) -> tuple[PandaNode, ...]:
    node = GeomNode(thing.kind)
    node.add_geom(geom(join(placed(piece.mesh, thing) for piece in pieces_of(thing))))
    return (node,)
