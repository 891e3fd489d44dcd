"""Static objects that have an id: traffic lights, signs and parked cars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from panda3d.core import GeomNode, PandaNode

from carla_bridge.simulator.catalogue.kinds import ObjectKind
from carla_bridge.simulator.rendering.geoms import geom, surface_state
from carla_bridge.simulator.rendering.mesh import Piece
from carla_bridge.simulator.rendering.meshes import traffic_signs
from carla_bridge.simulator.rendering.occlusion import Screen
from carla_bridge.simulator.rendering.shapes import ShapeTable
from carla_bridge.simulator.scene import StaticObject

OTHER_LOOKS = 4
"""Looks below this are states of a traffic light."""
_KEPT = 64


@dataclass(frozen=True, eq=False)
class VisiblePart:
    """A node that may be seen, and what its pixels mean."""

    node: PandaNode
    tag: int
    object_id: int


@dataclass(frozen=True)
class InstanceBounds:
    """Places and sizes of some of the objects."""

    numbers: NDArray[np.int64]
    centres: NDArray[np.float64]
    radii: NDArray[np.float64]
    thickness: NDArray[np.float64]
    """The smaller visible dimension, by which a thing is too small to be drawn."""


class StaticInstances:
    """Traffic lights, signs and parked cars: each its own node per look, made when it is first seen."""

    def __init__(self, things: Sequence[StaticObject]) -> None:
        self._things = [thing for thing in things if thing.object_id]
        self._is_light = [thing.kind == ObjectKind.TRAFFIC_LIGHT.value for thing in self._things]
        self._shapes = ShapeTable()
        self._pieces: dict[tuple[object, ...], list[Piece]] = {}
        self._parts: dict[tuple[int, int], VisiblePart] = {}
        sizes = np.array([thing.size for thing in self._things]).reshape(-1, 3)
        self._centres = np.array([(t.pose.x, t.pose.y, t.pose.z) for t in self._things]).reshape(-1, 3)
        self._centres[:, 2] += sizes[:, 2] / 2
        self._radii: NDArray[np.float64] = np.linalg.norm(sizes, axis=1) / 2
        self._thickness = np.minimum(sizes[:, 2], sizes[:, :2].max(axis=1, initial=0))
        self.around = lru_cache(_KEPT)(self._around)
        """What may be seen from a screen's place in any direction."""

    def _around(self, screen: Screen) -> InstanceBounds:
        hidden = screen.hides(self._centres, self._radii, self._centres[:, 2] + self._radii)
        found = np.flatnonzero(~hidden)
        return InstanceBounds(found, self._centres[found], self._radii[found], self._thickness[found])

    def part(self, number: int, lights: Mapping[int, int], near: bool) -> VisiblePart:
        """One object: a traffic light in its state, anything else near or far."""
        thing = self._things[number]
        state = (
            min(lights.get(thing.object_id, traffic_signs.OFF), traffic_signs.OFF)
            if self._is_light[number]
            else traffic_signs.OFF
        )
        look = state if self._is_light[number] else OTHER_LOOKS + near
        if (number, look) not in self._parts:
            key = (thing.kind, thing.size, thing.colour, thing.variant, look)
            if key not in self._pieces:
                self._pieces[key] = self._shaped(thing, state, near)
            self._parts[number, look] = VisiblePart(_placed(self._pieces[key], thing), thing.tag, thing.object_id)
        return self._parts[number, look]

    def _shaped(self, thing: StaticObject, state: int, near: bool) -> list[Piece]:
        if thing.kind == ObjectKind.TRAFFIC_LIGHT.value:
            return traffic_signs.traffic_light(thing, state)
        shape = self._shapes.shape(thing.kind)
        return shape.near(thing) if near or shape.far is None else shape.far(thing)


def _placed(pieces: Sequence[Piece], thing: StaticObject) -> GeomNode:
    pose = thing.pose
    node = GeomNode(thing.kind)
    for piece in pieces:
        mesh = piece.mesh.copies([(pose.x, pose.y, pose.z)], [pose.yaw], [(1, 1, 1)])
        node.add_geom(geom(mesh), surface_state(None, piece.shining, smooth=False))
    return node
