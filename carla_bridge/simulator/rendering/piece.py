"""What a shape is made of."""

from dataclasses import dataclass

from carla_bridge.simulator.rendering.mesh import Mesh


@dataclass(frozen=True)
class Piece:
    """A mesh in the object's own frame and how its surface is drawn."""

    mesh: Mesh
    texture: str | None = None
    shining: bool = False
    """Keeps its colour in any light: lamps."""
