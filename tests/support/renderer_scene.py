"""A street small enough to reason about, and actors on it, for the renderer's tests."""

import numpy as np

from carla_bridge.simulator.catalogue.kinds import OBJECT_TAGS, SURFACE_TAGS, ObjectKind, SurfaceKind
from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.catalogue.vehicle_models import vehicle_models
from carla_bridge.simulator.scene import CameraView, MovingObject, Pose, StaticObject, Surface, Town

WALKER = (0.25, 0.25, 0.9)


def rectangle(kind: SurfaceKind, x0: float, y0: float, x1: float, y1: float) -> Surface:
    outline = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
    return Surface(kind.value, outline, SURFACE_TAGS[kind])


def thing(kind: ObjectKind, place: tuple[float, ...], size: tuple[float, float, float], **more) -> StaticObject:
    x, y, z, yaw = (*place, 0.0)[:4]
    pose = Pose(x, y, z, yaw=yaw)
    return StaticObject(kind.value, pose, size, OBJECT_TAGS[kind], **more)


def street() -> Town:
    """A street along x with houses, trees, furniture, signs, a traffic light and parked cars on both sides."""
    surfaces = [
        rectangle(SurfaceKind.CARRIAGEWAY, -100, -7, 200, 7),
        rectangle(SurfaceKind.PAVEMENT, -100, 7, 200, 11),
        rectangle(SurfaceKind.PAVEMENT, -100, -11, 200, -7),
        *(rectangle(SurfaceKind.LINE_WHITE, x, -0.1, x + 3, 0.1) for x in range(-100, 200, 9)),
        *(rectangle(SurfaceKind.CROSSING, 30, y, 34, y + 0.6) for y in range(-6, 6)),
    ]
    objects: list[StaticObject] = []
    for number, x in enumerate(range(-90, 200, 30)):
        objects += [
            thing(ObjectKind.BUILDING, (x, -24, 0), (22, 18, 12 + 3 * (number % 3)), variant=number),
            thing(ObjectKind.HOUSE, (x, 26, 0), (14, 10, 8), variant=number),
            thing(ObjectKind.TREE, (x + 7, 10, 0), (4, 4, 7), variant=number, colour=(80, 110, 60)),
            thing(ObjectKind.LAMP, (x, -7.5, 0, 0), (0.2, 2, 7)),
            thing(ObjectKind.BENCH, (x + 12, 9, 0, -90), (0.6, 1.8, 0.8)),
            thing(ObjectKind.PARKED_CAR, (x + 5, -5.8, 0), (4.2, 1.8, 1.5), variant=number, object_id=0xC100 + number),
            thing(ObjectKind.SPEED_SIGN, (x + 2, 7.5, 2, 180), (0.04, 0.8, 0.8), variant=50, object_id=0xC200 + number),
        ]
    objects += [
        thing(ObjectKind.TRAFFIC_LIGHT_POLE, (36, 7.5, 0, 180), (0.2, 4, 5.6)),
        thing(ObjectKind.TRAFFIC_LIGHT, (35.7, 4, 4.6, 180), (0.3, 0.4, 1.0), object_id=0xC001),
        thing(ObjectKind.TRAFFIC_LIGHT, (35.7, 7.5, 2.5, 180), (0.3, 0.4, 1.0), object_id=0xC001),
        thing(ObjectKind.TOWER, (150, -50, 0), (30, 20, 60), variant=2),
        thing(ObjectKind.GUARD_RAIL, (60, 11, 0), (20, 0.3, 0.8)),
    ]
    return Town("street", surfaces, objects)


def vehicle(actor_id: int, name: str, pose: Pose, **more) -> MovingObject:
    model = next(model for model in vehicle_models() if model.blueprint.endswith(name))
    return MovingObject(actor_id, model.blueprint, pose, model.extent, int(model.tag), model.colours[0], **more)


def traffic() -> list[MovingObject]:
    """One of every blueprint in two rows, and walkers on the pavement."""
    actors = []
    for number, model in enumerate(vehicle_models()):
        lane = 1 if number % 2 else -1
        pose = Pose(8 + 6.5 * (number // 2), 2.6 * lane, 0, yaw=0 if lane > 0 else 180)
        colour = model.colours[number % len(model.colours)]
        actors.append(MovingObject(number + 1, model.blueprint, pose, model.extent, int(model.tag), colour))
    for number in range(20):
        pose = Pose(4 + 3 * number, 8.5 if number % 2 else -9, 0, yaw=37 * number)
        blueprint = f"walker.pedestrian.{number + 1:04d}"
        actors.append(MovingObject(500 + number, blueprint, pose, WALKER, Tag.PEDESTRIAN, gait=0.5 * number))
    return actors


def view(x: float = -2, y: float = 0.5, z: float = 2.2, **angles: float) -> CameraView:
    return CameraView(Pose(x, y, z, **angles), 416, 256, 90.0)
