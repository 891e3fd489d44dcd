"""Which shape each kind of static object has, and from how far it is still drawn."""

from collections.abc import Callable
from dataclasses import dataclass

from carla_bridge.simulator.catalogue.kinds import PARKED_MODELS, ObjectKind
from carla_bridge.simulator.rendering.looks import vehicle_body
from carla_bridge.simulator.rendering.mesh import Piece, join
from carla_bridge.simulator.rendering.meshes import barriers, buildings, street, traffic_signs, vegetation
from carla_bridge.simulator.scene import StaticObject

_ANY_DISTANCE = 2000.0


@dataclass(frozen=True)
class Shape:
    """How a kind is drawn; distances in metres at a focal length of 208 pixels."""

    near: Callable[[StaticObject], list[Piece]]
    reach: float
    """Beyond this it is too thin to draw."""
    far: Callable[[StaticObject], list[Piece]] | None = None
    """A simpler shape for beyond `detail`."""
    detail: float = 60.0
    elastic: bool = False
    """Built once in a box of one metre and stretched to each object's size."""
    alone: bool = False
    """Large enough to be shown or left out on its own."""


def _parked(thing: StaticObject, near: bool) -> list[Piece]:
    length, width, height = thing.size
    extent = (length / 2, width / 2, height / 2)
    model = PARKED_MODELS[thing.variant % len(PARKED_MODELS)]
    body, lamps = vehicle_body(model, extent, thing.tag, thing.colour, near)
    return [Piece(join([body, lamps["head"], lamps["tail"]]))]


def _shapes() -> dict[ObjectKind, Shape]:
    def leveled(
        build: Callable[[StaticObject, bool], list[Piece]],
        reach: float,
        detail: float = 60.0,
        elastic: bool = False,
    ) -> Shape:
        return Shape(lambda thing: build(thing, True), reach, lambda thing: build(thing, False), detail, elastic)

    return {
        ObjectKind.BUILDING: Shape(buildings.building, _ANY_DISTANCE, alone=True),
        ObjectKind.TOWER: Shape(buildings.tower, _ANY_DISTANCE, alone=True),
        ObjectKind.HOUSE: Shape(buildings.house, _ANY_DISTANCE, alone=True),
        ObjectKind.SHED: Shape(buildings.shed, _ANY_DISTANCE, alone=True),
        ObjectKind.KIOSK: Shape(buildings.kiosk, 200.0),
        ObjectKind.TREE: leveled(vegetation.tree, 240.0, 35.0, elastic=True),
        ObjectKind.CONIFER: leveled(vegetation.conifer, 240.0, 35.0, elastic=True),
        ObjectKind.BUSH: Shape(vegetation.bush, 100.0, elastic=True),
        ObjectKind.HEDGE: Shape(vegetation.hedge, 200.0),
        ObjectKind.LAMP: Shape(street.lamp, 100.0),
        ObjectKind.POLE: Shape(street.pole, 60.0),
        ObjectKind.TRAFFIC_LIGHT_POLE: Shape(street.traffic_light_pole, 100.0),
        ObjectKind.TRAFFIC_LIGHT: Shape(lambda thing: traffic_signs.traffic_light(thing, traffic_signs.OFF), 150.0),
        ObjectKind.SPEED_SIGN: leveled(traffic_signs.speed_sign, 150.0),
        ObjectKind.DIRECTION_SIGN: leveled(traffic_signs.direction_sign, 200.0),
        ObjectKind.GANTRY: Shape(street.gantry, 420.0),
        ObjectKind.GANTRY_SIGN: leveled(traffic_signs.direction_sign, 300.0),
        ObjectKind.PARKED_CAR: leveled(_parked, 300.0),
        ObjectKind.GUARD_RAIL: leveled(barriers.guard_rail, 170.0, 40.0),
        ObjectKind.BARRIER: Shape(barriers.barrier, 200.0),
        ObjectKind.NOISE_WALL: Shape(barriers.noise_wall, 420.0),
        ObjectKind.FENCE: leveled(barriers.fence, 70.0, 35.0),
        ObjectKind.BENCH: Shape(street.bench, 60.0),
        ObjectKind.BIN: Shape(street.litter_bin, 60.0),
        ObjectKind.HYDRANT: Shape(street.hydrant, 60.0),
        ObjectKind.BUS_SHELTER: Shape(street.bus_shelter, 200.0),
        ObjectKind.BILLBOARD: Shape(street.billboard, 200.0),
    }


class ShapeTable:
    """Shapes by kind."""

    def __init__(self) -> None:
        self._shapes = {kind.value: shape for kind, shape in _shapes().items()}

    def shape(self, kind: str) -> Shape:
        """The shape of a kind; ValueError if it has none."""
        if kind not in self._shapes:
            raise ValueError(f"the renderer has no shape for objects of kind {kind!r}; add one to shapes.py.")
        return self._shapes[kind]
