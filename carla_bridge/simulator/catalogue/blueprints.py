"""The blueprint library: what can be spawned, with which attributes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from carla_bridge.simulator.catalogue.camera_attributes import EXPOSURE_MODES, LENS, PICTURE
from carla_bridge.simulator.catalogue.vehicle_models import VehicleModel, vehicle_models
from carla_bridge.simulator.errors import RefusedError

MAX_IMAGE_SIDE = 4096
MAX_IMAGE_PIXELS = 4096 * 2304
CAMERAS = ("rgb", "instance_segmentation", "semantic_segmentation", "depth")
WALKERS = 26
SECOND_GENERATION = 15
"""The first pedestrian of CARLA's second generation, which some scripts filter for."""
CAMERA_ROLES = ("front", "back", "left", "right", "front_left", "front_right", "back_left", "back_right")


class AttributeType(IntEnum):
    """CARLA's numbering."""

    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    COLOUR = 5


@dataclass(frozen=True)
class Attribute:
    """One attribute with its default."""

    id: str
    type: AttributeType
    value: str
    recommended: tuple[str, ...] = ()
    modifiable: bool = True
    restricted: bool = False

    def wire(self) -> list[object]:
        return [
            self.id,
            int(self.type),
            self.value,
            list(self.recommended),
            self.modifiable,
            self.restricted,
        ]


@dataclass(frozen=True)
class Blueprint:
    """One entry of the library."""

    id: str
    attributes: tuple[Attribute, ...]
    model: VehicleModel | None = None

    @property
    def tags(self) -> str:
        return ",".join(self.id.split("."))

    def settings(self, given: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The attributes of an actor: the defaults with what the client changed, types checked."""
        known = {attribute.id: attribute for attribute in self.attributes}
        values = {attribute.id: attribute.value for attribute in self.attributes}
        for name, value in given:
            if name not in known:
                raise RefusedError(f"blueprint {self.id} has no attribute '{name}'")
            _check(self.id, known[name], value)
            values[name] = value
        return values


def _check(blueprint: str, attribute: Attribute, value: str) -> None:
    try:
        if attribute.type is AttributeType.INT:
            int(value)
        elif attribute.type is AttributeType.FLOAT:
            if not abs(float(value)) < 1e9:
                raise ValueError
        elif attribute.type is AttributeType.COLOUR:
            colour_of(value)
    except ValueError:
        raise RefusedError(
            f"attribute '{attribute.id}' of {blueprint} cannot be '{value}': "
            f"give a value of type {attribute.type.name.lower()}"
        ) from None


def colour_of(text: str) -> tuple[int, int, int]:
    """'r,g,b' as numbers; ValueError if it is something else."""
    red, green, blue = (int(part) for part in text.split(","))
    if not all(0 <= part <= 255 for part in (red, green, blue)):
        raise ValueError(text)
    return red, green, blue


class BlueprintLibrary(Mapping[str, Blueprint]):
    """All blueprints by id, in alphabetical order."""

    def __init__(self) -> None:
        entries = [*_vehicles(), *_walkers(), *_sensors(), *_others()]
        self._entries = {entry.id: entry for entry in sorted(entries, key=lambda entry: entry.id)}

    def __getitem__(self, name: str) -> Blueprint:
        return self._entries[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def wire(self) -> list[object]:
        """ActorDefinitions on the wire."""
        return [
            [number, entry.id, entry.tags, [attribute.wire() for attribute in entry.attributes]]
            for number, entry in enumerate(self._entries.values(), start=1)
        ]


def _names(blueprint: str, *roles: str) -> tuple[Attribute, ...]:
    """What every actor can be called: its role, and its name for ROS, which nothing here uses."""
    role = Attribute("role_name", AttributeType.STRING, roles[0], roles)
    return role, Attribute("ros_name", AttributeType.STRING, blueprint, (blueprint,))


def _fixed(name: str, kind: AttributeType, value: str) -> Attribute:
    return Attribute(name, kind, value, (value,), modifiable=False)


_DRIVER = (Attribute("driver_id", AttributeType.INT, "1", ("1",), restricted=True),)
"""Who sits on a two-wheeler: there is one rider."""


def _vehicles() -> Iterable[Blueprint]:
    for model in vehicle_models():
        paints = tuple(",".join(map(str, colour)) for colour in model.colours)
        attributes = (
            Attribute("color", AttributeType.COLOUR, paints[0], paints),
            *_names(model.blueprint, "autopilot", "scenario", "ego_vehicle"),
            Attribute("sticky_control", AttributeType.BOOL, "true", ("true",)),
            Attribute("terramechanics", AttributeType.BOOL, "false", ("false",)),
            *(_DRIVER if model.wheels == 2 else ()),
            _fixed("object_type", AttributeType.STRING, model.base_type),
            _fixed("base_type", AttributeType.STRING, model.base_type),
            _fixed("special_type", AttributeType.STRING, model.special),
            _fixed("number_of_wheels", AttributeType.INT, str(model.wheels)),
            _fixed("generation", AttributeType.INT, str(model.generation)),
            _fixed("has_lights", AttributeType.BOOL, str(model.wheels == 4).lower()),
            _fixed("has_dynamic_doors", AttributeType.BOOL, "false"),
        )
        yield Blueprint(model.blueprint, attributes, model)


def walker_extent(number: int) -> tuple[float, float, float]:
    """Half sizes of pedestrian `number`: every fourth is a child."""
    if number % 4 == 0:
        return 0.16, 0.18, 0.55 + 0.01 * (number % 5)
    return 0.19, 0.22, 0.86 + 0.01 * (number % 7)


def _walkers() -> Iterable[Blueprint]:
    for number in range(1, WALKERS + 1):
        name, speeds = f"walker.pedestrian.{number:04d}", ("0.0", "1.4", "2.6")
        attributes = (
            *_names(name, "pedestrian"),
            Attribute("speed", AttributeType.FLOAT, speeds[1], speeds),
            Attribute("is_invincible", AttributeType.BOOL, "true", ("true",)),
            _fixed("gender", AttributeType.STRING, "female" if number % 2 else "male"),
            _fixed("age", AttributeType.STRING, "child" if number % 4 == 0 else "adult"),
            _fixed("generation", AttributeType.INT, "1" if number < SECOND_GENERATION else "2"),
            _fixed("can_use_wheelchair", AttributeType.BOOL, "false"),
            Attribute("use_wheelchair", AttributeType.BOOL, "false", ("false",)),
        )
        yield Blueprint(name, attributes)


def _preset(name: str, value: bool | int | float) -> Attribute:
    """An attribute whose type is that of its default."""
    kinds = {bool: AttributeType.BOOL, int: AttributeType.INT, float: AttributeType.FLOAT}
    return Attribute(name, kinds[type(value)], str(value).lower())


def _without_effect(camera: str) -> tuple[Attribute, ...]:
    """Attributes of a camera that can be set but have no effect."""
    lens = tuple(_preset(name, value) for name, value in LENS.items())
    if camera != "rgb":
        return lens
    mode = Attribute("exposure_mode", AttributeType.STRING, EXPOSURE_MODES[0], EXPOSURE_MODES, restricted=True)
    return (*lens, *(_preset(name, value) for name, value in PICTURE.items()), mode)


def _sensors() -> Iterable[Blueprint]:
    tick = Attribute("sensor_tick", AttributeType.FLOAT, "0.0")
    for camera in CAMERAS:
        attributes = (
            Attribute("image_size_x", AttributeType.INT, "800"),
            Attribute("image_size_y", AttributeType.INT, "600"),
            Attribute("fov", AttributeType.FLOAT, "90.0"),
            tick,
            *_names(f"sensor.camera.{camera}", *CAMERA_ROLES),
            *_without_effect(camera),
        )
        yield Blueprint(f"sensor.camera.{camera}", attributes)
    noise = (
        ("gnss", ("noise_alt_bias", "noise_alt_stddev", "noise_lat_bias", "noise_lat_stddev")),
        ("gnss", ("noise_lon_bias", "noise_lon_stddev")),
        ("imu", tuple(f"noise_accel_stddev_{axis}" for axis in "xyz")),
        ("imu", tuple(f"noise_gyro_{kind}_{axis}" for kind in ("bias", "stddev") for axis in "xyz")),
    )
    for sensor in ("gnss", "imu"):
        names = [name for owner, group in noise if owner == sensor for name in group]
        numbers = [Attribute(name, AttributeType.FLOAT, "0.0") for name in names]
        seed = Attribute("noise_seed", AttributeType.INT, "0")
        yield Blueprint(f"sensor.other.{sensor}", (*numbers, seed, tick, *_names(f"sensor.other.{sensor}", "default")))
    for event in ("sensor.other.collision", "sensor.other.lane_invasion"):
        yield Blueprint(event, _names(event, *CAMERA_ROLES))


def _others() -> Iterable[Blueprint]:
    yield Blueprint("controller.ai.walker", _names("controller.ai.walker", "default"))
