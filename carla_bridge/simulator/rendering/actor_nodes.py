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
class _Figure:
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


class Cast:
    """Keeps a node per actor and level of detail, and forgets those whose actor is gone."""

    def __init__(self) -> None:
        self._figures: dict[tuple[int, bool], _Figure] = {}
        self._geoms: dict[Look, list[tuple[list[tuple[Geom, RenderState]], int]]] = {}

    def scene(self, moving: MovingObjects) -> Scene:
        """Work out where everybody is."""
        positions, extents = moving.positions, moving.extents
        axes = rotations(moving.rotations)
        centres = positions + axes[:, :, 2] * extents[:, 2:]
        if len(self._figures) > 2 * len(moving) + 64:
            present = set(moving.ids)
            self._figures = {key: figure for key, figure in self._figures.items() if key[0] in present}
        return Scene(
            moving,
            centres,
            axes,
            positions,
            extents,
            np.linalg.norm(extents, axis=1),
            2 * np.minimum(extents[:, 2], extents[:, :2].max(axis=1, initial=0)),
        )

    def figure(self, scene: Scene, index: int, near: bool) -> list[VisiblePart]:
        """The parts of one actor, in place."""
        actor = scene.moving[index]
        look = look_of(actor, near)
        figure = self._figures.get((actor.actor_id, near))
        if figure is None or figure.look != look:
            figure = _Figure(look, self._parts(look, actor.actor_id % 65536))
            self._figures[actor.actor_id, near] = figure
        place = transform(scene.axes[index], scene.positions[index])
        for part in figure.parts:
            part.node.set_transform(place)
        return figure.parts

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
