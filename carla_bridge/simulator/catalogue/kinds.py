"""Every kind of surface and static object that a town may contain, with its conventions for drawing.

Surfaces are listed in painter's order: a later one covers an earlier one, and all lie at z = 0.

For objects, `size` is the full length (x), width (y) and height (z) in the object's own frame, and the pose is
the centre of the base. `pose.z` is above zero for what hangs: sign plates, lamps of traffic lights, gantry
panels. Unless said otherwise an object fills its box.
"""

from enum import Enum

from carla_bridge.simulator.catalogue.semantics import Tag


class SurfaceKind(str, Enum):
    """Flat things."""

    GRASS = "grass"
    """Open land; Terrain."""
    FIELD = "field"
    """Farmland and dry grass along the highway; Terrain."""
    PLAZA = "plaza"
    """Paved ground inside blocks; Ground."""
    LAWN = "lawn"
    """Gardens and parks in the city; Terrain."""
    PAVEMENT = "pavement"
    """Where walkers walk; SideWalks."""
    CARRIAGEWAY = "carriageway"
    """City streets, junctions and ramps; Roads."""
    PARKING = "parking"
    """Strip for parked cars beside the lanes; Roads."""
    HIGHWAY = "highway"
    """Lanes of the highway; Roads."""
    SHOULDER = "shoulder"
    """Hard shoulder of the highway and the ramps; Roads."""
    CORNER = "corner"
    """Pavement at a street corner, over the junction's carriageway; SideWalks."""
    CROSSING = "crossing"
    """One stripe of a zebra crossing; RoadLine."""
    LINE_WHITE = "line_white"
    """One dash, or a piece of a solid line; RoadLine."""
    LINE_YELLOW = "line_yellow"
    """A piece of the line between opposite directions; RoadLine."""


class ObjectKind(str, Enum):
    """Things that stand on the ground or hang above it."""

    BUILDING = "building"
    """Flats or offices, flat roof; variant: one of FACADES."""
    TOWER = "tower"
    """A high-rise; variant: one of FACADES."""
    HOUSE = "house"
    """A house with a pitched roof (ridge along x) inside its box; variant: one of FACADES."""
    SHED = "shed"
    """Warehouse or barn; variant: one of FACADES."""
    TREE = "tree"
    """A broad-leaved tree: trunk and a crown as wide as the box; variant: one of CROWNS."""
    CONIFER = "conifer"
    """A conical tree; variant: one of CROWNS."""
    BUSH = "bush"
    HEDGE = "hedge"
    """A trimmed, box-shaped hedge along x."""
    LAMP = "lamp"
    """A street lamp: a post at the pose and an arm of length size[1] along +y at the top."""
    POLE = "pole"
    """A thin vertical post: of a sign, a reflector post, a bollard."""
    TRAFFIC_LIGHT_POLE = "traffic_light_pole"
    """A post at the pose and an arm of length size[1] along +y at the top."""
    TRAFFIC_LIGHT = "traffic_light"
    """A head with three lamps, red on top, that face +x. Two heads of one light share its object id."""
    SPEED_SIGN = "speed_sign"
    """A round plate that faces +x, in a box of no depth; variant: the limit in km/h."""
    DIRECTION_SIGN = "direction_sign"
    """A rectangular plate that faces +x; variant 0 green (highway), 1 blue (city)."""
    GANTRY = "gantry"
    """A frame over a carriageway: two legs and a beam at the top, spanning y."""
    GANTRY_SIGN = "gantry_sign"
    """A panel that hangs from a gantry and faces +x; variant 0 green, 1 blue."""
    PARKED_CAR = "parked_car"
    """A car of the map, not an actor; faces +x; variant: index into PARKED_MODELS."""
    GUARD_RAIL = "guard_rail"
    """A piece of steel rail along x, with its posts."""
    BARRIER = "barrier"
    """A piece of low concrete wall along x."""
    NOISE_WALL = "noise_wall"
    """A piece of high wall along x, between the highway and houses."""
    FENCE = "fence"
    """A piece of garden or field fence along x."""
    BENCH = "bench"
    """A seat that faces +x."""
    BIN = "bin"
    """A litter bin."""
    HYDRANT = "hydrant"
    BUS_SHELTER = "bus_shelter"
    """A glazed shelter, open towards +x."""
    BILLBOARD = "billboard"
    """A large panel on posts that faces +x; the panel takes the upper two thirds; variant: one of POSTERS."""
    KIOSK = "kiosk"


FACADES = 8
CROWNS = 4
POSTERS = 4

PARKED_MODELS = (
    "vehicle.tesla.model3",
    "vehicle.nissan.micra",
    "vehicle.audi.a2",
    "vehicle.audi.etron",
    "vehicle.toyota.prius",
    "vehicle.seat.leon",
    "vehicle.mini.cooper_s",
    "vehicle.nissan.patrol_2021",
    "vehicle.mercedes.sprinter",
    "vehicle.volkswagen.t2_2021",
)
"""Blueprints that parked cars look like; the size is that of the blueprint."""

SURFACE_TAGS = {
    SurfaceKind.GRASS: Tag.TERRAIN,
    SurfaceKind.FIELD: Tag.TERRAIN,
    SurfaceKind.PLAZA: Tag.GROUND,
    SurfaceKind.LAWN: Tag.TERRAIN,
    SurfaceKind.PAVEMENT: Tag.SIDEWALK,
    SurfaceKind.CARRIAGEWAY: Tag.ROAD,
    SurfaceKind.PARKING: Tag.ROAD,
    SurfaceKind.HIGHWAY: Tag.ROAD,
    SurfaceKind.SHOULDER: Tag.ROAD,
    SurfaceKind.CORNER: Tag.SIDEWALK,
    SurfaceKind.CROSSING: Tag.ROAD_LINE,
    SurfaceKind.LINE_WHITE: Tag.ROAD_LINE,
    SurfaceKind.LINE_YELLOW: Tag.ROAD_LINE,
}

OBJECT_TAGS = {
    ObjectKind.BUILDING: Tag.BUILDING,
    ObjectKind.TOWER: Tag.BUILDING,
    ObjectKind.HOUSE: Tag.BUILDING,
    ObjectKind.SHED: Tag.BUILDING,
    ObjectKind.TREE: Tag.VEGETATION,
    ObjectKind.CONIFER: Tag.VEGETATION,
    ObjectKind.BUSH: Tag.VEGETATION,
    ObjectKind.HEDGE: Tag.VEGETATION,
    ObjectKind.LAMP: Tag.POLE,
    ObjectKind.POLE: Tag.POLE,
    ObjectKind.TRAFFIC_LIGHT_POLE: Tag.POLE,
    ObjectKind.TRAFFIC_LIGHT: Tag.TRAFFIC_LIGHT,
    ObjectKind.SPEED_SIGN: Tag.TRAFFIC_SIGN,
    ObjectKind.DIRECTION_SIGN: Tag.TRAFFIC_SIGN,
    ObjectKind.GANTRY: Tag.POLE,
    ObjectKind.GANTRY_SIGN: Tag.TRAFFIC_SIGN,
    ObjectKind.PARKED_CAR: Tag.CAR,
    ObjectKind.GUARD_RAIL: Tag.GUARD_RAIL,
    ObjectKind.BARRIER: Tag.WALL,
    ObjectKind.NOISE_WALL: Tag.WALL,
    ObjectKind.FENCE: Tag.FENCE,
    ObjectKind.BENCH: Tag.STATIC,
    ObjectKind.BIN: Tag.STATIC,
    ObjectKind.HYDRANT: Tag.STATIC,
    ObjectKind.BUS_SHELTER: Tag.STATIC,
    ObjectKind.BILLBOARD: Tag.STATIC,
    ObjectKind.KIOSK: Tag.BUILDING,
}
