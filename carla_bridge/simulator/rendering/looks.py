"""What an actor looks like at a moment: the key by which its meshes are shared, and the meshes."""

from dataclasses import dataclass
from enum import IntFlag
from math import pi

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.rendering.mesh import Colour, Mesh, empty, join
from carla_bridge.simulator.rendering.meshes import cars
from carla_bridge.simulator.rendering.meshes.heavy import bus, fire_engine, truck
from carla_bridge.simulator.rendering.meshes.people import clothes_of, walker
from carla_bridge.simulator.rendering.meshes.two_wheelers import bicycle, motorbike
from carla_bridge.simulator.scene import MovingObject

PHASES = 12
"""Steps of a gait; meshes are shared between walkers in the same step."""


class LightFlag(IntFlag):
    """CARLA's VehicleLightState, as far as it is seen."""

    POSITION = 0x1
    LOW_BEAM = 0x2
    HIGH_BEAM = 0x4
    BRAKE = 0x8
    RIGHT_BLINKER = 0x10
    LEFT_BLINKER = 0x20


_SEEN_LIGHTS = sum(LightFlag)

_STYLES = {
    "audi.a2": cars.HATCHBACK,
    "audi.etron": cars.SUV,
    "audi.tt": cars.COUPE,
    "bmw.grandtourer": cars.HATCHBACK,
    "citroen.c3": cars.HATCHBACK,
    "ford.ambulance": cars.VAN,
    "ford.mustang": cars.COUPE,
    "jeep.wrangler_rubicon": cars.JEEP,
    "mercedes.coupe": cars.COUPE,
    "mercedes.coupe_2020": cars.COUPE,
    "mercedes.sprinter": cars.VAN,
    "micro.microlino": cars.MICRO,
    "mini.cooper_s": cars.HATCHBACK,
    "mini.cooper_s_2021": cars.HATCHBACK,
    "nissan.micra": cars.HATCHBACK,
    "nissan.patrol": cars.SUV,
    "nissan.patrol_2021": cars.SUV,
    "seat.leon": cars.HATCHBACK,
    "tesla.cybertruck": cars.WEDGE,
    "volkswagen.t2": cars.BUSLET,
    "volkswagen.t2_2021": cars.BUSLET,
}
"""Models that are no saloon."""

_BLUE: Colour = (40, 70, 230)
_RED: Colour = (220, 30, 30)
_TRIMS = {
    "dodge.charger_police": cars.Trim((_RED, _BLUE), (236, 236, 236)),
    "dodge.charger_police_2020": cars.Trim((_RED, _BLUE), (236, 236, 236)),
    "ford.ambulance": cars.Trim((_BLUE, _BLUE), (220, 60, 30)),
    "ford.crown": cars.Trim(((250, 240, 190), (250, 240, 190))),
}
_FREIGHT: dict[str, Colour] = {"carlamotors.carlacola": (206, 34, 36), "carlamotors.european_hgv": (226, 226, 222)}


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
    """A mesh in the actor's frame, what shines of it, and the tag of its pixels."""

    mesh: Mesh
    tag: int
    shining: Mesh


def look_of(actor: MovingObject, near: bool) -> Look:
    """The look of an actor, seen from near or far."""
    steps = actor.tag in (Tag.PEDESTRIAN, Tag.BICYCLE)
    phase = round(actor.gait / (2 * pi) * PHASES) % PHASES if steps else 0
    return Look(actor.blueprint, actor.extent, actor.tag, actor.colour, phase, actor.lights & _SEEN_LIGHTS, near)


def parts_of(look: Look) -> list[Part]:
    """The meshes of a look."""
    turn = 2 * pi * look.phase / PHASES
    if look.tag == Tag.PEDESTRIAN:
        return [Part(walker(look.extent, clothes_of(look.blueprint), turn, look.near), look.tag, empty())]
    if look.tag in (Tag.MOTORCYCLE, Tag.BICYCLE):
        clothes = clothes_of(f"{look.blueprint} {look.colour}")
        if look.tag == Tag.MOTORCYCLE:
            machine, person = motorbike(look.extent, look.colour, clothes, look.near)
        else:
            machine, person = bicycle(look.extent, look.colour, clothes, turn, look.near)
        return [Part(machine, look.tag, empty()), Part(person, Tag.RIDER, empty())]
    return [_vehicle(look)]


def vehicle_body(
    blueprint: str, extent: tuple[float, float, float], tag: int, colour: Colour, near: bool
) -> tuple[Mesh, dict[str, Mesh]]:
    """A vehicle with four or more wheels, and its lamps."""
    name = blueprint.removeprefix("vehicle.")
    if tag == Tag.BUS:
        return bus(extent, colour, near)
    if name.endswith("firetruck"):
        return fire_engine(extent, colour, near)
    if tag == Tag.TRUCK:
        return truck(extent, colour, _FREIGHT.get(name, (220, 220, 216)), 0.27 if extent[0] > 3 else 0.33, near)
    style = _STYLES.get(name, cars.SEDAN)
    return cars.car(extent, style, colour, _TRIMS.get(name, cars.Trim()), near)


def _vehicle(look: Look) -> Part:
    body, lamps = vehicle_body(look.blueprint, look.extent, look.tag, look.colour, look.near)
    lit = LightFlag(look.lights)
    bright = {
        "head": (255, 252, 236) if lit & (LightFlag.LOW_BEAM | LightFlag.HIGH_BEAM) else None,
        "tail": _tail_light(lit),
        "right": (255, 170, 40) if lit & LightFlag.RIGHT_BLINKER else None,
        "left": (255, 170, 40) if lit & LightFlag.LEFT_BLINKER else None,
    }
    dark = [lamps[name] for name, colour in bright.items() if colour is None and name in ("head", "tail")]
    shining = [_painted(lamps[name], colour) for name, colour in bright.items() if colour is not None]
    return Part(join([body, *dark]), look.tag, join(shining))


def _tail_light(lit: LightFlag) -> Colour | None:
    if lit & LightFlag.BRAKE:
        return (255, 36, 26)
    return (190, 12, 12) if lit & (LightFlag.POSITION | LightFlag.LOW_BEAM) else None


def _painted(mesh: Mesh, colour: Colour) -> Mesh:
    mesh.colours[:, :3] = colour
    return mesh
