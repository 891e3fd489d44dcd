"""Which shape each kind of static object has, and how far away it is still drawn."""

from dataclasses import dataclass

from carla_bridge.simulator.rendering.mesh import Mesh, box
from carla_bridge.simulator.scene import StaticObject


@dataclass(frozen=True)
class Piece:
    """A mesh in the object's own frame and the facade texture it wears, if any."""

    mesh: Mesh
    facade: int | None = None


def plain_box(thing: StaticObject) -> list[Piece]:
    length, width, height = thing.size
    return [Piece(box((-length / 2, -width / 2, 0), (length / 2, width / 2, height), thing.colour))]


def pieces_of(thing: StaticObject) -> list[Piece]:
    return plain_box(thing)


def reach_of(thing: StaticObject) -> float:
    return 400.0
