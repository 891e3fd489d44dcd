"""The actors of a moment as nodes, reused from tick to tick."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from panda3d.core import Geom, GeomNode, RenderState

from carla_bridge.simulator.rendering.camera import rotations
from carla_bridge.simulator.rendering.engine import transform
from carla_bridge.simulator.rendering.geoms import geom, surface_state
from carla_bridge.simulator.rendering.instances import VisiblePart
from carla_bridge.simulator.rendering.looks import Look, Part, look_of, parts_of
from carla_bridge.simulator.scene import MovingObjects

_KEPT_LOOKS = 1500


@dataclass
class _ActorNode:
    """An actor at one level of detail."""

    look: Look
    parts: list[VisiblePart]


@dataclass(frozen=True)
class Scene:
    """Where the actors of one moment are."""

    moving: MovingObjects
    centres: NDArray[np.float64]
    axes: NDArray[np.float64]
    positions: NDArray[np.float64]
    extents: NDArray[np.float64]
    radii: NDArray[np.float64]
    thickness: NDArray[np.float64]


class ActorNodes:
    """Keeps the nodes of each actor and level of detail, and drops those of actors that no longer exist."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bool], _ActorNode] = {}
        self._geoms: dict[Look, list[tuple[list[tuple[Geom, RenderState]], int]]] = {}

    def scene(self, moving: MovingObjects) -> Scene:
        """Compute where all actors are."""
        positions, extents = moving.positions, moving.extents
        axes = rotations(moving.rotations)
        centres = positions + axes[:, :, 2] * extents[:, 2:]
        if len(self._nodes) > 2 * len(moving) + 64:
            present = set(moving.ids)
            self._nodes = {key: node for key, node in self._nodes.items() if key[0] in present}
        return Scene(
            moving,
            centres,
            axes,
            positions,
            extents,
            np.linalg.norm(extents, axis=1),
            2 * np.minimum(extents[:, 2], extents[:, :2].max(axis=1, initial=0)),
        )

    def parts(self, scene: Scene, index: int, near: bool) -> list[VisiblePart]:
        """The parts of one actor, in place."""
        actor = scene.moving[index]
        look = look_of(actor, near)
        node = self._nodes.get((actor.actor_id, near))
        if node is None or node.look != look:
            node = _ActorNode(look, self._parts(look, actor.actor_id % 65536))
            self._nodes[actor.actor_id, near] = node
        place = transform(scene.axes[index], scene.positions[index])
        for part in node.parts:
            part.node.set_transform(place)
        return node.parts

    def _parts(self, look: Look, object_id: int) -> list[VisiblePart]:
        if look not in self._geoms:
            if len(self._geoms) >= _KEPT_LOOKS:
                self._geoms.clear()
            self._geoms[look] = [(_shapes(part), part.tag) for part in parts_of(look)]
        parts = []
        for shapes, tag in self._geoms[look]:
            node = GeomNode(look.blueprint)
            for shape, state in shapes:
                node.add_geom(shape, state)
            parts.append(VisiblePart(node, tag, object_id))
        return parts


def _shapes(part: Part) -> list[tuple[Geom, RenderState]]:
    shapes = [(geom(part.mesh), surface_state(None, shining=False, smooth=True))]
    if len(part.shining.points):
        shapes.append((geom(part.shining), surface_state(None, shining=True, smooth=False)))
    return shapes
