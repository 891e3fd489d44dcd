"""What an actor looks like at a moment: the key by which its meshes are shared, and the meshes."""

from dataclasses import dataclass

from carla_bridge.simulator.rendering.mesh import Colour, Mesh, box
from carla_bridge.simulator.scene import MovingObject


@dataclass(frozen=True)
class Look:
    """Everything that changes an actor's shape or paint."""

    blueprint: str
    extent: tuple[float, float, float]
    tag: int
    colour: Colour
    phase: int
    """Step of the gait, out of PHASES."""
    lights: int
    near: bool


@dataclass(frozen=True)
class Part:
    """A mesh in the actor's frame and the tag of its pixels."""

    mesh: Mesh
    tag: int


def look_of(actor: MovingObject, near: bool) -> Look:
    return Look(actor.blueprint, actor.extent, actor.tag, actor.colour, 0, 0, near)


def parts_of(look: Look) -> list[Part]:
    x, y, z = look.extent
    return [Part(box((-x, -y, 0), (x, y, 2 * z), look.colour), look.tag)]
