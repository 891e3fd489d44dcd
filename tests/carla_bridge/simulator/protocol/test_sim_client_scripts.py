"""What the scripts that come with CARLA rely on, done by the real client in a separate process."""

import carla
import pytest

from tests.support.carla_client import STEP, at, blueprint, connect, fresh, listening

pytest_plugins = ("tests.support.simulator_servers",)


def car_in(world, place=8):
    return world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), world.get_map().get_spawn_points()[place])


def attach_in_batches(port):
    """The client leaves the attachment type of these commands as it finds it in memory."""
    client, world = connect(port)
    world = fresh(client)
    car = car_in(world)
    gnss, spawn = blueprint(world, "sensor.other.gnss"), carla.command.SpawnActor
    for _ in range(5):
        answers = client.apply_batch_sync([spawn(gnss, carla.Transform(), car)] * 4, True)
        assert [answer.error for answer in answers] == [""] * 4
    parents = {actor.parent.id for actor in world.get_actors().filter("sensor.other.gnss")}
    assert parents == {car.id}


def spawn_with_a_refused_follow_up(port):
    """The actor exists, so its id is returned: without it no client could destroy it."""
    client, world = connect(port)
    world = fresh(client)
    command, place = carla.command, world.get_map().get_spawn_points()[3]
    push = command.ApplyTorque(command.FutureActor, carla.Vector3D(1, 0, 0))
    spawn = command.SpawnActor(blueprint(world, "vehicle.audi.tt"), place)
    [answer] = client.apply_batch_sync([spawn.then(push)], True)
    assert not answer.error
    assert world.get_actor(answer.actor_id).type_id == "vehicle.audi.tt"
    [gone] = client.apply_batch_sync([command.DestroyActor(answer.actor_id)], True)
    assert not gone.error


def choose_vehicles(port):
    """Old and new models by the names that scripts have for them."""
    client, world = connect(port)
    world = fresh(client)
    places = world.get_map().get_spawn_points()
    names = ("lincoln.mkz_2017", "nissan.patrol", "mercedes.coupe", "mini.cooper_s_2021", "dodge.charger_police_2020")
    for name, place in zip(names, places, strict=False):
        car = world.spawn_actor(blueprint(world, f"vehicle.{name}"), place)
        assert car.attributes["generation"] == ("2" if name.endswith(("2020", "2021")) else "1")
        assert 2.2 < car.bounding_box.extent.x < 2.7
    assert len(world.get_blueprint_library().filter("vehicle.*")) == 41


def choose_walkers(port):
    _, world = connect(port, synchronous=False)
    walkers = world.get_blueprint_library().filter("walker.pedestrian.*")
    assert {int(walker.get_attribute("generation")) for walker in walkers} == {1, 2}
    for walker in walkers:
        assert not walker.get_attribute("can_use_wheelchair").as_bool()
        walker.set_attribute("use_wheelchair", "true")


def feel_acceleration(port):
    """Steady driving is no acceleration, neither for a new sensor nor for one that was not listened to."""
    client, world = connect(port)
    world = fresh(client)
    car = car_in(world)
    car.enable_constant_velocity(carla.Vector3D(10, 0, 0))
    world.tick()
    imu = world.spawn_actor(blueprint(world, "sensor.other.imu"), carla.Transform(), attach_to=car)
    for speed in (10, 3):
        car.enable_constant_velocity(carla.Vector3D(speed, 0, 0))
        for _ in range(5):
            world.tick()
        with listening(imu) as (data,):
            felt = at(data, world.tick())
            assert felt.accelerometer.x == pytest.approx(0, abs=1e-3)
            assert felt.accelerometer.z == pytest.approx(9.81, abs=1e-3)
    with listening(imu) as (data,):
        car.enable_constant_velocity(carla.Vector3D(4, 0, 0))
        assert at(data, world.tick()).accelerometer.x == pytest.approx(1 / STEP, rel=1e-3)


def sense_now_and_then(port):
    """A period begins when the sensor is spawned, in the first second of an episode as well."""
    client, world = connect(port)
    world = fresh(client)
    car = car_in(world)
    for _ in range(7):
        world.tick()
    gnss = world.spawn_actor(blueprint(world, "sensor.other.gnss", sensor_tick=1.0), carla.Transform(), attach_to=car)
    frames = []
    gnss.listen(lambda data: frames.append(data.frame))
    first = world.tick()
    for _ in range(65):
        last = world.tick()
    with listening(world.spawn_actor(blueprint(world, "sensor.other.gnss"), carla.Transform())) as (data,):
        at(data, world.tick())
    assert frames[0] == first
    assert frames == list(range(first, last + 1, round(1 / STEP)))


def move_a_camera(port):
    client, world = connect(port)
    world = fresh(client)
    car = car_in(world)
    camera = world.spawn_actor(blueprint(world, "sensor.camera.rgb"), carla.Transform(), attach_to=car)
    world.tick()
    before = camera.get_transform().rotation.yaw
    camera.set_location(carla.Location(1.5, 0, 2))
    world.tick()
    assert camera.get_transform().rotation.yaw == pytest.approx(before)
    assert camera.get_location().z == pytest.approx(2)


def set_up_a_camera(port):
    """What scripts tell a camera about its lens and its pictures is accepted."""
    client, world = connect(port)
    world = fresh(client)
    plain = blueprint(world, "sensor.camera.rgb", image_size_x=32, image_size_y=32)
    for name, default in (("gamma", 2.2), ("iso", 100.0), ("fstop", 1.4), ("motion_blur_intensity", 0.45)):
        assert float(plain.get_attribute(name)) == pytest.approx(default)
    assert plain.get_attribute("exposure_mode").as_str() == "histogram"
    assert bool(plain.get_attribute("enable_postprocess_effects"))
    tuned = blueprint(
        world,
        "sensor.camera.rgb",
        image_size_x=32,
        image_size_y=32,
        gamma=1.8,
        motion_blur_intensity=0.0,
        enable_postprocess_effects=False,
        bloom_intensity=0,
        iso=1600,
        exposure_mode="manual",
        shutter_speed=60,
        lens_circle_falloff=3.0,
        blade_count=7,
    )
    cameras = [world.spawn_actor(bp, carla.Transform(carla.Location(z=2))) for bp in (plain, tuned)]
    assert cameras[1].attributes["gamma"] == "1.8"
    with listening(*cameras) as queues:
        frame = world.tick()
        assert [at(data, frame).width for data in queues] == [32, 32]
    for kind in ("depth", "semantic_segmentation", "instance_segmentation"):
        camera = blueprint(world, f"sensor.camera.{kind}", lens_k=0.0, lens_kcube=0.1, lens_x_size=0.1, lens_y_size=0.1)
        assert not camera.has_attribute("gamma"), "as with CARLA"
        world.spawn_actor(camera, carla.Transform())


def tick_an_asynchronous_world(port):
    client, _ = connect(port, synchronous=False)
    world = client.reload_world()
    settings = world.get_settings()
    settings.fixed_delta_seconds = STEP
    world.apply_settings(settings)
    frames = [world.tick() for _ in range(5)]
    assert frames == sorted(set(frames)), "each tick is another frame"


def shift_gears(port):
    client, world = connect(port)
    world = fresh(client)
    car = car_in(world)
    ahead = car.get_transform().get_forward_vector()
    car.apply_control(carla.VehicleControl(throttle=1, manual_gear_shift=True, gear=-1))
    for _ in range(20):
        world.tick()
    assert car.get_velocity().dot(ahead) < -1


def refuse_to_carry_a_walker(port):
    client, world = connect(port)
    world = fresh(client)
    car, walker = car_in(world), world.get_blueprint_library().filter("walker.*")[0]
    with pytest.raises(RuntimeError, match="a walker cannot be attached"):
        world.spawn_actor(walker, carla.Transform(), attach_to=car)


def name_things_of_the_map(port):
    _, world = connect(port, synchronous=False)
    names = {thing.id: thing.name for thing in world.get_environment_objects(carla.CityObjectLabel.Any)}
    cars = world.get_environment_objects(carla.CityObjectLabel.Car)
    assert cars
    assert {names[car.id] for car in cars} == {car.name for car in cars}


SCENES = [
    attach_in_batches,
    spawn_with_a_refused_follow_up,
    choose_vehicles,
    choose_walkers,
    feel_acceleration,
    sense_now_and_then,
    move_a_camera,
    set_up_a_camera,
    tick_an_asynchronous_world,
    shift_gears,
    refuse_to_carry_a_walker,
    name_things_of_the_map,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_real_client(scene, blank_server, isolated):
    isolated(scene, blank_server.port)
