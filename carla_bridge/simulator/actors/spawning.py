"""Makes actors from blueprints."""

from zlib import crc32

from carla_bridge.simulator.actors.actor import Actor, Sensor, Vehicle, Walker
from carla_bridge.simulator.actors.posing import attached
from carla_bridge.simulator.catalogue.blueprints import (
    MAX_IMAGE_PIXELS,
    MAX_IMAGE_SIDE,
    Blueprint,
    colour_of,
    walker_extent,
)
from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.scene import Pose

_CLOTHES = ((70, 82, 110), (140, 44, 48), (60, 90, 66), (180, 170, 150), (44, 44, 50), (196, 148, 60))


def make_actor(
    number: int, blueprint: Blueprint, given: list[tuple[str, int, str]], pose: Pose, parent: Actor | None
) -> Actor:
    """A new actor with its attributes checked; not yet in the world."""
    settings = blueprint.settings([(name, value) for name, _, value in given])
    kinds = {attribute.id: int(attribute.type) for attribute in blueprint.attributes}
    attributes = tuple((name, kinds[name], value) for name, value in settings.items())
    if parent is not None and blueprint.id.startswith(("vehicle.", "walker.")):
        raise RefusedError(f"a {blueprint.id.split('.')[0]} cannot be attached to another actor")
    if blueprint.model is not None:
        model = blueprint.model
        return Vehicle(
            number,
            blueprint.id,
            pose,
            attributes,
            model=model,
            extent=model.extent,
            box_centre=(0.0, 0.0, model.extent[2]),
            tag=model.tag,
            colour=colour_of(settings["color"]),
            sticky=settings["sticky_control"].lower() == "true",
        )
    if blueprint.id.startswith("walker."):
        index = int(blueprint.id.rsplit(".", 1)[1])
        walker = Walker(number, blueprint.id, pose, attributes, extent=walker_extent(index))
        walker.tag = Tag.PEDESTRIAN
        walker.colour = _CLOTHES[crc32(blueprint.id.encode()) % len(_CLOTHES)]
        return walker
    world_pose = pose if parent is None else attached(parent.pose, pose)
    mount = None if parent is None else pose
    if blueprint.id.startswith("sensor.") and blueprint.id != "sensor.other.lane_invasion":
        if blueprint.id.startswith("sensor.camera."):
            _check_camera(settings)
        return Sensor(
            number,
            blueprint.id,
            world_pose,
            attributes,
            parent,
            mount,
            settings=settings,
            period=max(0.0, float(settings.get("sensor_tick", "0"))),
        )
    if blueprint.id == "controller.ai.walker" and not isinstance(parent, Walker):
        raise RefusedError("controller.ai.walker must be attached to a walker")
    return Actor(number, blueprint.id, world_pose, attributes, parent, mount)


def _check_camera(settings: dict[str, str]) -> None:
    width, height = int(settings["image_size_x"]), int(settings["image_size_y"])
    if not (0 < width <= MAX_IMAGE_SIDE and 0 < height <= MAX_IMAGE_SIDE) or width * height > MAX_IMAGE_PIXELS:
        raise RefusedError(
            f"an image of {width} x {height} pixels is not possible here: "
            f"each side must be from 1 to {MAX_IMAGE_SIDE} pixels, and the whole at most {MAX_IMAGE_PIXELS}"
        )
    fov = float(settings["fov"])
    if not 1.0 <= fov <= 170.0:
        raise RefusedError(f"a field of view of {fov:g} degrees is not possible here: it must be from 1 to 170")
