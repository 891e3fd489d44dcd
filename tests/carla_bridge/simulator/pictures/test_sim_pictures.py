"""Pictures of the whole simulator through the real client: boxes, depth, determinism."""

import hashlib

import carla
import numpy as np
import pytest

from carla_bridge.config.section import CarlaSettings
from carla_bridge.fleet_process.embedded import EmbeddedSimulator
from tests.support.carla_client import at, blueprint, connect, fresh, listening

pytest_plugins = ("tests.support.simulator_servers",)
WIDTH, HEIGHT, FOV = 416, 256, 90.0
CAR_TAG = 14


@pytest.fixture(scope="module")
def simulator():
    """A server of this file's own, which may be left in whatever mode a test ends in."""
    with EmbeddedSimulator.start(CarlaSettings(seed=5)) as running:
        yield running


def pixels(image):
    return np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)


def project(box, vehicle, camera):
    """The corners of a 3D box in the camera's image, and their depths."""
    focal = WIDTH / (2 * np.tan(np.radians(FOV) / 2))
    corners = np.array([(v.x, v.y, v.z, 1.0) for v in box.get_world_vertices(vehicle)]).T
    forward, right, down = (np.array(camera.get_inverse_matrix()) @ corners)[:3]
    u = WIDTH / 2 + focal * right / forward
    v = HEIGHT / 2 - focal * down / forward
    return u, v, forward


def cameras_on(world, place, kinds=("rgb", "instance_segmentation", "semantic_segmentation", "depth")):
    size = {"image_size_x": WIDTH, "image_size_y": HEIGHT, "fov": FOV}
    return [world.spawn_actor(blueprint(world, f"sensor.camera.{kind}", **size), place) for kind in kinds]


def look_at_cars(port):
    """Unoccluded cars ahead of a camera: masks against projected boxes, depth against distance."""
    client, world = connect(port)
    world = fresh(client)
    lane = world.get_map().get_waypoint(carla.Location(x=100.0, y=-513.0))
    above = carla.Transform(lane.transform.location + carla.Location(z=1.7), lane.transform.rotation)
    sensors = cameras_on(world, above)
    checked = 0
    with listening(*sensors) as queues:
        for name in ("vehicle.tesla.model3", "vehicle.carlamotors.european_hgv", "vehicle.mercedes.sprinter"):
            for distance, turn in ((12.0, 0.0), (18.0, 60.0), (26.0, 200.0)):
                place = carla.Transform(above.transform(carla.Location(x=distance, z=-1.7)), above.rotation)
                place.rotation.yaw += turn
                vehicle = world.spawn_actor(blueprint(world, name), place)
                vehicle.set_simulate_physics(False)
                frame = world.tick()
                rgb, instance, semantic, depth = (pixels(at(data, frame)).astype(int) for data in queues)
                mine = (instance[..., 1] + 256 * instance[..., 0] == vehicle.id % 65536) & (instance[..., 2] > 0)
                rows, columns = np.nonzero(mine)
                u, v, forward = project(vehicle.bounding_box, vehicle.get_transform(), sensors[0].get_transform())
                assert columns.min() >= u.min() - 2.5
                assert columns.max() <= u.max() + 2.5
                assert rows.min() >= v.min() - 2.5
                assert rows.max() <= v.max() + 2.5
                wide, high = u.max() - u.min(), v.max() - v.min()
                assert columns.max() - columns.min() > 0.85 * wide
                assert rows.max() - rows.min() > 0.8 * high
                assert np.array_equal(semantic[..., 2][mine], instance[..., 2][mine]), "the images agree"
                metres = (depth[..., 2] + 256 * depth[..., 1] + 65536 * depth[..., 0]) / (256**3 - 1) * 1000
                assert metres[mine].min() > forward.min() - 0.5
                assert metres[mine].max() < forward.max() + 0.5
                assert rgb[mine].std() > 1, "the car is drawn, not flat"
                checked += 1
                vehicle.destroy()
    for sensor in sensors:
        sensor.destroy()
    return checked


def test_masks_fill_their_boxes_and_depth_fits(simulator, client_home, isolated):
    assert isolated(look_at_cars, simulator.port) == 9


def parked_cars_are_instances(port):
    """Parked cars carry ids that no actor has."""
    client, world = connect(port)
    world = fresh(client)
    boxes = world.get_level_bbs(carla.CityObjectLabel.Car)
    box = boxes[0]
    place = carla.Transform(box.location + carla.Location(x=-8.0, y=0.0, z=2.0), carla.Rotation(pitch=-8))
    (camera,) = cameras_on(world, place, ("instance_segmentation",))
    with listening(camera) as (images,):
        image = pixels(at(images, world.tick())).astype(int)
    camera.destroy()
    ids = (image[..., 1] + 256 * image[..., 0])[image[..., 2] == CAR_TAG]
    return sorted(set(ids.tolist()))


def test_parked_cars_have_ids_of_the_map(simulator, client_home, isolated):
    ids = isolated(parked_cars_are_instances, simulator.port)
    assert ids
    assert min(ids) >= 0xC000


def together_and_alone(port):
    """Two cameras of one size, whose pictures are drawn whole, and each of them alone, whose picture is cut."""
    client, world = connect(port)
    world = fresh(client)
    places = world.get_map().get_spawn_points()[:2]
    above = [carla.Transform(place.location + carla.Location(z=1.5), place.rotation) for place in places]
    cameras = [camera for place in above for camera in cameras_on(world, place, ("rgb",))]
    with listening(*cameras) as queues:
        frame = world.tick()
        together = [pixels(at(data, frame)).astype(int) for data in queues]
    alone = []
    for camera in cameras:
        with listening(camera) as (data,):
            alone.append(pixels(at(data, world.tick())).astype(int))
    for camera in cameras:
        camera.destroy()

    def differing(one, other):
        return float((np.abs(one - other).max(axis=2) > 6).mean())

    return [differing(*pair) for pair in zip(together, alone, strict=True)], differing(*together)


def test_views_that_are_drawn_together_look_as_if_drawn_alone(simulator, client_home, isolated):
    same, different = isolated(together_and_alone, simulator.port)
    assert max(same) < 0.01
    assert different > 0.2


def film(port):
    """Hashes of all images of a drive through traffic, from a fresh server."""
    client, world = connect(port)
    manager = client.get_trafficmanager()
    manager.set_random_device_seed(5)
    command = carla.command
    models = sorted(world.get_blueprint_library().filter("vehicle.*"), key=lambda entry: entry.id)
    places = world.get_map().get_spawn_points()
    batch = [
        command.SpawnActor(models[number % len(models)], place).then(
            command.SetAutopilot(command.FutureActor, True, manager.get_port())
        )
        for number, place in enumerate(places[:20])
    ]
    answers = client.apply_batch_sync(batch, False)
    world.tick()
    car = world.get_actor(answers[0].actor_id)
    mount = carla.Transform(carla.Location(x=1.5, z=1.7))
    sensors = [
        world.spawn_actor(
            blueprint(world, f"sensor.camera.{kind}", image_size_x=208, image_size_y=128), mount, attach_to=car
        )
        for kind in ("rgb", "instance_segmentation", "depth")
    ]
    seen = hashlib.sha256()
    with listening(*sensors) as queues:
        for _ in range(20):
            frame = world.tick()
            for data in queues:
                image = at(data, frame)
                seen.update(bytes(image.raw_data))
                seen.update(str(image.transform).encode())
    return seen.hexdigest()


def test_same_seed_and_commands_same_frames_bit_for_bit(client_home, isolated):
    films = []
    for seed in (2, 2):
        with EmbeddedSimulator.start(CarlaSettings(seed=seed)) as server:
            films.append(isolated(film, server.port))
    assert films[0] == films[1]
