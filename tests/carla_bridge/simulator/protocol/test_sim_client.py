"""Every supported call, made by the real CARLA client in a separate process."""

import math

import carla
import numpy as np
import pytest

from tests.support.carla_client import STEP, at, blueprint, connect, fresh, listening
from tests.support.waiting import wait_for

pytest_plugins = ("tests.support.simulator_servers",)
CAMERAS = ("rgb", "instance_segmentation", "semantic_segmentation", "depth")


def look_around(port):
    client, world = connect(port, synchronous=False)
    assert client.get_server_version() == client.get_client_version() == "0.9.16"
    town = world.get_map()
    assert town.name.endswith("GridRing01")
    assert client.get_available_maps() == ["/Game/Carla/Maps/GridRing01"]
    points = town.get_spawn_points()
    limits = {place.location.y < -400 for place in points[:100]}
    assert limits == {True, False}, "both city and highway are among the first spawn points"
    library = world.get_blueprint_library()
    kinds = {bp.get_attribute("base_type").as_str() for bp in library.filter("vehicle.*")}
    assert kinds == {"car", "van", "truck", "bus", "motorcycle", "bicycle"}
    assert len(library.filter("walker.pedestrian.*")) > 20
    wheels = [int(bp.get_attribute("number_of_wheels")) for bp in library.filter("vehicle.*")]
    assert {2, 4} == set(wheels)
    boxes = world.get_level_bbs(carla.CityObjectLabel.Car)
    assert len(boxes) > 100
    assert len(world.get_environment_objects(carla.CityObjectLabel.Buildings)) > 50
    first = world.wait_for_tick().frame
    later = world.wait_for_tick().frame
    assert later > first, "an asynchronous world moves by itself"
    world.get_spectator().set_transform(carla.Transform(carla.Location(1, 2, 3), carla.Rotation(yaw=40)))
    world.wait_for_tick()
    world.wait_for_tick()
    assert world.get_spectator().get_transform().location.distance(carla.Location(1, 2, 3)) < 1e-4


def use_the_map(port):
    _, world = connect(port, synchronous=False)
    town = world.get_map()
    assert len(town.get_topology()) > 200
    for place in town.get_spawn_points():
        waypoint = town.get_waypoint(place.location)
        assert waypoint.lane_type == carla.LaneType.Driving
        assert waypoint.transform.location.distance(place.location) < 0.5
        turn = (waypoint.transform.rotation.yaw - place.rotation.yaw + 180) % 360 - 180
        assert abs(turn) < 1.0
        assert waypoint.next(5.0)
    highway = town.get_waypoint(carla.Location(0.0, -513.0, 0.0))
    assert highway.get_right_lane() is not None
    assert highway.left_lane_marking.type == carla.LaneMarkingType.Broken
    where = carla.Location(120.0, -40.0, 3.0)
    assert town.transform_to_geolocation(where).altitude == pytest.approx(3.0)
    assert town.get_waypoint(where, lane_type=carla.LaneType.Sidewalk) is not None
    assert town.get_crosswalks() == [], "crossings are drawn, and not in OpenDRIVE"


def spawn_and_destroy(port):
    client, world = connect(port)
    world = fresh(client)
    place = world.get_map().get_spawn_points()[0]
    vehicle = world.spawn_actor(blueprint(world, "vehicle.tesla.model3", color="10,20,30", role_name="hero"), place)
    assert world.try_spawn_actor(blueprint(world, "vehicle.audi.tt"), place) is None
    with pytest.raises(RuntimeError, match="collision"):
        world.spawn_actor(blueprint(world, "vehicle.audi.tt"), place)
    world.tick()
    assert vehicle.attributes["role_name"] == "hero"
    assert vehicle.attributes["color"] == "10,20,30"
    assert vehicle.get_location().distance(carla.Location(place.location.x, place.location.y, 0)) < 1e-3
    box = vehicle.bounding_box
    assert box.location.z == pytest.approx(box.extent.z)
    assert vehicle.id in [actor.id for actor in world.get_actors().filter("vehicle.*")]
    sensor = world.spawn_actor(blueprint(world, "sensor.other.gnss"), carla.Transform(), attach_to=vehicle)
    world.tick()
    assert sensor.parent.id == vehicle.id
    assert vehicle.destroy()
    world.tick()
    assert world.get_snapshot().find(sensor.id) is None, "what is attached goes too"
    assert not vehicle.is_alive
    old = vehicle.id
    world = fresh(client)
    again = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), place)
    assert again.id > old, "ids are never used twice"
    again.destroy()


def drive_by_hand(port):
    client, world = connect(port)
    world = fresh(client)
    places = [p for p in world.get_map().get_spawn_points() if p.location.y < -480 and abs(p.location.x) < 300]
    vehicle = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), places[0])
    vehicle.apply_control(carla.VehicleControl(throttle=0.7))
    for _ in range(60):
        world.tick()
    speed = vehicle.get_velocity().length()
    assert speed > 5
    assert vehicle.get_control().throttle == pytest.approx(0.7)
    assert vehicle.get_acceleration().length() > 0.5
    assert vehicle.get_speed_limit() == 90
    yaw = vehicle.get_transform().rotation.yaw
    vehicle.apply_control(carla.VehicleControl(throttle=0.3, steer=0.2))
    for _ in range(5):
        world.tick()
    turned = (vehicle.get_transform().rotation.yaw - yaw + 180) % 360 - 180
    assert turned > 1, "positive steering turns right"
    assert vehicle.get_angular_velocity().z > 0
    assert vehicle.get_wheel_steer_angle(carla.VehicleWheelLocation.FL_Wheel) > 1
    vehicle.apply_control(carla.VehicleControl(brake=1.0))
    for _ in range(100):
        world.tick()
    assert vehicle.get_velocity().length() < 0.01
    place = vehicle.get_location()
    vehicle.apply_control(carla.VehicleControl(throttle=0.5, reverse=True))
    for _ in range(20):
        world.tick()
    forward = vehicle.get_transform().get_forward_vector()
    assert (vehicle.get_location() - place).dot(forward) < -0.3
    vehicle.apply_control(carla.VehicleControl(hand_brake=True))
    vehicle.set_target_velocity(carla.Vector3D())
    world.tick()
    vehicle.enable_constant_velocity(carla.Vector3D(4, 0, 0))
    for _ in range(5):
        world.tick()
    assert vehicle.get_velocity().length() == pytest.approx(4, abs=0.01)
    vehicle.disable_constant_velocity()
    vehicle.apply_ackermann_control(carla.VehicleAckermannControl(steer=0.0, speed=6.0))
    for _ in range(100):
        world.tick()
    assert vehicle.get_velocity().length() == pytest.approx(6, abs=0.3)
    vehicle.set_transform(places[1])
    vehicle.set_simulate_physics(False)
    world.tick()
    world.tick()
    assert vehicle.get_location().distance(places[1].location) < 0.01
    vehicle.set_light_state(carla.VehicleLightState(carla.VehicleLightState.LowBeam))
    assert vehicle.get_light_state() == carla.VehicleLightState.LowBeam
    assert vehicle.id in dict(world.get_vehicles_light_states())
    assert vehicle.get_physics_control().mass > 500
    vehicle.destroy()


def run_batches(port):
    client, world = connect(port)
    world = fresh(client)
    places = world.get_map().get_spawn_points()
    command = carla.command
    spawn = [
        command.SpawnActor(blueprint(world, "vehicle.nissan.micra"), place).then(
            command.ApplyVehicleControl(command.FutureActor, carla.VehicleControl(throttle=1.0))
        )
        for place in places[:5]
    ]
    answers = client.apply_batch_sync(
        [*spawn, command.SpawnActor(blueprint(world, "vehicle.audi.tt"), places[0])], True
    )
    assert [answer.error for answer in answers[:5]] == [""] * 5
    assert "collision" in answers[5].error
    ids = [answer.actor_id for answer in answers[:5]]
    for _ in range(10):
        world.tick()
    assert all(world.get_actor(number).get_velocity().length() > 0.5 for number in ids)
    target = carla.Transform(carla.Location(100, -300, 0), carla.Rotation(yaw=90))
    client.apply_batch_sync(
        [command.ApplyTransform(ids[0], target), command.ApplyVehicleControl(ids[0], carla.VehicleControl(brake=1))]
    )
    client.apply_batch([command.SetVehicleLightState(ids[1], carla.VehicleLightState.Brake)])
    world.tick()
    assert world.get_actor(ids[0]).get_location().distance(target.location) < 2.0
    assert world.get_actor(ids[1]).get_light_state() == carla.VehicleLightState.Brake
    gone = client.apply_batch_sync([command.DestroyActor(number) for number in (*ids, 999999)], True)
    assert [bool(answer.error) for answer in gone] == [False] * 5 + [True]
    assert not world.get_actors().filter("vehicle.*")


def receive_images(port):
    client, world = connect(port)
    world = fresh(client)
    vehicle = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), world.get_map().get_spawn_points()[3])
    mount = carla.Transform(carla.Location(1.2, 0.1, 1.6), carla.Rotation(pitch=-5, yaw=10))
    sensors = [
        world.spawn_actor(
            blueprint(world, f"sensor.camera.{kind}", image_size_x=208, image_size_y=128, fov=70), mount, vehicle
        )
        for kind in CAMERAS
    ]
    slow = blueprint(world, "sensor.camera.rgb", image_size_x=64, image_size_y=32, sensor_tick=4 * STEP)
    sensors.append(world.spawn_actor(slow, mount, vehicle))
    vehicle.apply_control(carla.VehicleControl(throttle=0.5))
    with listening(*sensors) as queues:
        for number in range(12):
            frame = world.tick()
            snapshot = world.get_snapshot()
            assert snapshot.frame == frame
            for sensor, data in zip(sensors[:4], queues, strict=False):
                image = at(data, frame)
                assert (image.width, image.height, image.fov) == (208, 128, 70)
                assert len(image.raw_data) == 208 * 128 * 4
                assert image.transform == snapshot.find(sensor.id).get_transform()
                assert image.timestamp == pytest.approx(snapshot.timestamp.elapsed_seconds)
            if number == 0:
                world.tick()
        seen = [queues[4].get(timeout=30.0).frame for _ in range(4)]
        assert seen == list(range(frame - 12, frame + 1, 4)), "one image every four ticks"
        pixel = np.frombuffer(image.raw_data, np.uint8)[:4]
        assert pixel.tolist() == [255, 255, 255, 255], "blank depth is the farthest depth"
    for sensor in (*sensors, vehicle):
        sensor.destroy()


def refuse_cameras(port):
    client, world = connect(port)
    world = fresh(client)
    for size in ((100000, 100000), (0, 10), (-5, 5), (4096, 4096)):
        camera = blueprint(world, "sensor.camera.rgb", image_size_x=size[0], image_size_y=size[1])
        with pytest.raises(RuntimeError, match="not possible here"):
            world.spawn_actor(camera, carla.Transform())
    with pytest.raises(RuntimeError, match="field of view"):
        world.spawn_actor(blueprint(world, "sensor.camera.rgb", fov=400), carla.Transform())
    with pytest.raises(IndexError):
        world.get_blueprint_library().find("sensor.lidar.ray_cast")


def sense(port):
    client, world = connect(port)
    world = fresh(client)
    place = world.get_map().get_spawn_points()[3]
    vehicle = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), place)
    ahead = place.transform(carla.Location(x=9.0))
    wall = world.spawn_actor(blueprint(world, "vehicle.carlamotors.carlacola"), carla.Transform(ahead, place.rotation))
    gnss, imu, bump = (
        world.spawn_actor(blueprint(world, f"sensor.other.{kind}"), carla.Transform(), attach_to=vehicle)
        for kind in ("gnss", "imu", "collision")
    )
    invasion = world.spawn_actor(blueprint(world, "sensor.other.lane_invasion"), carla.Transform(), vehicle)
    vehicle.apply_control(carla.VehicleControl(throttle=1.0))
    town = world.get_map()
    with listening(gnss, imu, bump) as (places, motions, bumps):
        invasion.listen(lambda event: None)
        for _ in range(60):
            frame = world.tick()
            fix, motion = at(places, frame), at(motions, frame)
            expected = town.transform_to_geolocation(vehicle.get_location())
            assert fix.latitude == pytest.approx(expected.latitude, abs=1e-7)
            assert fix.longitude == pytest.approx(expected.longitude, abs=1e-7)
            assert motion.accelerometer.z == pytest.approx(9.81, abs=0.01)
            north = math.radians(vehicle.get_transform().rotation.yaw) + math.pi / 2
            assert math.cos(motion.compass - north) == pytest.approx(1.0, abs=1e-4)
        event = bumps.get(timeout=10.0)
        assert event.actor.id == vehicle.id
        assert event.other_actor.id == wall.id
        assert event.normal_impulse.length() > 100
        gap = vehicle.get_location().distance(wall.get_location())
        assert gap > vehicle.bounding_box.extent.x + wall.bounding_box.extent.x - 0.1, "cars are solid"
        invasion.stop()
    for actor in (gnss, imu, bump, invasion, vehicle, wall):
        actor.destroy()


def change_weather(port):
    client, world = connect(port)
    world = fresh(client)
    world.set_weather(carla.WeatherParameters(cloudiness=80, precipitation=60, fog_density=30, sun_altitude_angle=-5))
    weather = world.get_weather()
    assert (weather.cloudiness, weather.precipitation, weather.fog_density) == (80, 60, 30)
    assert weather.sun_altitude_angle == -5


def refuse_by_name(port):
    client, world = connect(port)
    for name, ask in (
        ("cast_ray", lambda: world.cast_ray(carla.Location(), carla.Location(1, 1, 1))),
        ("project_point", lambda: world.project_point(carla.Location(), carla.Vector3D(0, 0, -1), 5.0)),
        ("start_recorder", lambda: client.start_recorder("x.log")),
        ("get_names_of_all_objects", world.get_names_of_all_objects),
    ):
        with pytest.raises(RuntimeError, match=f"not served: {name}"):
            ask()
    with pytest.raises(RuntimeError, match="Town10HD"):
        client.load_world("Town10HD")
    settings = world.get_settings()
    settings.fixed_delta_seconds = 50.0
    with pytest.raises(RuntimeError, match="fixed_delta_seconds"):
        world.apply_settings(settings)
    assert world.tick() > 0


def load_worlds(port):
    client, world = connect(port)
    first, frame = world.id, world.get_snapshot().frame
    world = client.load_world("GridRing01", False)
    assert world.id != first
    assert world.get_settings().synchronous_mode, "settings stay where they were not reset"
    assert world.tick() > frame
    world = client.reload_world()
    assert not world.get_settings().synchronous_mode
    assert world.get_map().name.endswith("GridRing01")


SCENES = [
    look_around,
    use_the_map,
    spawn_and_destroy,
    drive_by_hand,
    run_batches,
    receive_images,
    refuse_cameras,
    sense,
    change_weather,
    refuse_by_name,
    load_worlds,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_real_client(scene, blank_server, isolated):
    isolated(scene, blank_server.port)


def one_of_two(port):
    """Two clients in one world: one ticks, the other looks on."""
    client, world = connect(port)
    world = fresh(client)
    other = carla.Client("127.0.0.1", port, 2)
    other.set_timeout(30.0)
    onlooker = other.get_world()
    place = world.get_map().get_spawn_points()[8]
    vehicle = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), place)
    camera = world.spawn_actor(
        blueprint(world, "sensor.camera.rgb", image_size_x=32, image_size_y=32), carla.Transform(), vehicle
    )
    frame = world.tick()
    wait_for(lambda: onlooker.get_snapshot().frame >= frame)
    same = onlooker.get_actor(vehicle.id)
    assert same.get_transform() == vehicle.get_transform()
    theirs = onlooker.get_actor(camera.id)
    with listening(camera, theirs) as (mine, yours):
        frame = world.tick()
        assert bytes(at(mine, frame).raw_data) == bytes(at(yours, frame).raw_data)
    same.apply_control(carla.VehicleControl(throttle=1.0))
    wait_for(lambda: world.tick() and vehicle.get_control().throttle == 1.0)
    for _ in range(20):
        world.tick()
    assert vehicle.get_velocity().length() > 1.0
    camera.destroy()
    vehicle.destroy()


def test_two_clients_share_one_world(blank_server, isolated):
    isolated(one_of_two, blank_server.port)
