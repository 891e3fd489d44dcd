"""Calls and commands that push, move and switch actors, made by the real CARLA client in a separate process."""

import queue

import carla
import pytest

from tests.support.carla_client import STEP, at, blueprint, connect, fresh, listening
from tests.support.raw_rpc import Rpc

pytest_plugins = ("tests.support.simulator_servers",)


def highway(world):
    """Places with a long straight road ahead."""
    return [p for p in world.get_map().get_spawn_points() if p.location.y < -480 and abs(p.location.x) < 300]


def car_on_the_highway(world, name="vehicle.tesla.model3"):
    return world.spawn_actor(blueprint(world, name), highway(world)[0])


def pedestrian(world):
    place = world.get_random_location_from_navigation()
    return world.spawn_actor(blueprint(world, "walker.pedestrian.0001"), carla.Transform(place + carla.Location(z=1)))


def push_cars(port):
    client, world = connect(port)
    world = fresh(client)
    car = car_on_the_highway(world)
    mass, ahead = car.get_physics_control().mass, car.get_transform().get_forward_vector()
    world.tick()
    car.add_impulse(ahead * (3.0 * mass))
    world.tick()
    assert car.get_velocity().dot(ahead) == pytest.approx(3.0, abs=0.1)
    car.add_force(ahead * (2.0 / STEP * mass))
    world.tick()
    assert car.get_velocity().dot(ahead) == pytest.approx(5.0, abs=0.1), "a force acts for one tick"
    car.set_enable_gravity(False)
    world.tick()
    assert car.get_location().z == pytest.approx(0.0, abs=1e-3), "the ground is flat, with gravity or without"
    car.destroy()


def pass_through_others(port):
    client, world = connect(port)
    world = fresh(client)
    car = car_on_the_highway(world)
    place = highway(world)[0]
    ahead = carla.Transform(place.transform(carla.Location(x=10.0)), place.rotation)
    other = world.spawn_actor(blueprint(world, "vehicle.audi.tt"), ahead)
    for collides in (True, False):
        car.set_transform(place)
        car.set_collisions(collides)
        car.enable_constant_velocity(carla.Vector3D(10, 0, 0))
        for _ in range(int(2 / STEP)):
            world.tick()
        covered = car.get_location().distance(place.location)
        assert (covered < 10.0) is collides
    for actor in (car, other):
        actor.destroy()


def command_cars(port):
    client, world = connect(port)
    world = fresh(client)
    car, command = car_on_the_highway(world), carla.command
    mass, ahead = car.get_physics_control().mass, car.get_transform().get_forward_vector()

    def run(*commands):
        assert [answer.error for answer in client.apply_batch_sync(list(commands), True)] == [""] * len(commands)
        return car.get_velocity().dot(ahead)

    assert run(command.ApplyTargetVelocity(car.id, ahead * 4.0)) == pytest.approx(4.0, abs=0.1)
    assert run(command.ApplyImpulse(car.id, ahead * (2.0 * mass))) == pytest.approx(6.0, abs=0.1)
    assert run(command.ApplyForce(car.id, ahead * (1.0 / STEP * mass))) == pytest.approx(7.0, abs=0.1)
    full = command.ApplyVehicleControl(car.id, carla.VehicleControl(throttle=1.0))
    here = car.get_location()
    assert run(command.SetSimulatePhysics(car.id, False), command.SetEnableGravity(car.id, False), full) == 0.0
    world.tick()
    assert car.get_location() == here, "nothing moves it"
    run(command.SetSimulatePhysics(car.id, True))
    for _ in range(10):
        world.tick()
    assert car.get_location().distance(here) > 0.3
    car.destroy()


def command_walkers(port):
    client, world = connect(port)
    world = fresh(client)
    walker = pedestrian(world)
    world.tick()
    here = walker.get_location()
    stride = carla.WalkerControl(carla.Vector3D(1, 0, 0), 1.5)
    [answer] = client.apply_batch_sync([carla.command.ApplyWalkerControl(walker.id, stride)], True)
    assert not answer.error
    for _ in range(19):
        world.tick()
    assert walker.get_location().x - here.x == pytest.approx(20 * STEP * 1.5, abs=0.01)
    rpc = Rpc(port)
    assert rpc.call("set_actor_dead", walker.id) == (None, [[False]]), "said by the client's crowd of who was hit"
    rpc.close()
    world.tick()
    here = walker.get_location()
    world.tick()
    assert walker.get_location() == here
    walker.destroy()


def command_what_python_has_no_names_for(port):
    """ApplyLocation and SetTrafficLightState: C++ clients have them."""
    client, world = connect(port)
    world = fresh(client)
    world.tick()
    car, light = car_on_the_highway(world), world.get_actors().filter("traffic.traffic_light")[0]
    place = highway(world)[1].location
    rpc = Rpc(port)
    location, state = [[19, [car.id, [place.x, place.y, 0.0]]]], [[21, [light.id, 3]]]
    assert rpc.call("apply_batch", [location, state], False) == (None, [[[1, car.id]], [[1, light.id]]])
    rpc.close()
    world.tick()
    assert car.get_location().distance(carla.Location(place.x, place.y, 0)) < 0.01
    assert light.state == carla.TrafficLightState.Off
    car.destroy()


def see_nothing_without_rendering(port):
    client, world = connect(port)
    world = fresh(client)
    camera = world.spawn_actor(
        blueprint(world, "sensor.camera.rgb", image_size_x=32, image_size_y=32), carla.Transform()
    )
    gnss = world.spawn_actor(blueprint(world, "sensor.other.gnss"), carla.Transform())
    settings = world.get_settings()
    with listening(camera, gnss) as (images, places):
        settings.no_rendering_mode = True
        world.apply_settings(settings)
        while not images.empty():
            images.get()
        for _ in range(3):
            dark = world.tick()
            at(places, dark)
        settings.no_rendering_mode = False
        world.apply_settings(settings)
        light = world.tick()
        assert images.get(timeout=30.0).frame > dark, "no picture was made in between"
        at(places, light)
    for sensor in (camera, gnss):
        sensor.destroy()


def keep_aside(port):
    client, world = connect(port)
    world = fresh(client)
    manager, town = client.get_trafficmanager(), world.get_map()
    car = car_on_the_highway(world)
    car.set_autopilot(True)
    manager.auto_lane_change(car, False)

    def to_the_right():
        for _ in range(int(6 / STEP)):
            world.tick()
        centre = town.get_waypoint(car.get_location()).transform
        return (car.get_location() - centre.location).dot(centre.get_right_vector())

    try:
        for offset in (0.6, -0.4):
            manager.global_lane_offset(offset)
            assert to_the_right() == pytest.approx(offset, abs=0.1)
    finally:
        manager.global_lane_offset(0.0)
    manager.shut_down()
    assert to_the_right() == pytest.approx(0.0, abs=0.1), "the traffic drives on without its manager's handle"
    assert car.get_velocity().length() > 10
    car.destroy()


def be_called_at_every_tick(port):
    client, world = connect(port)
    world = fresh(client)
    seen: queue.Queue[int] = queue.Queue()
    number = world.on_tick(lambda snapshot: seen.put(snapshot.frame))
    expected = [world.tick() for _ in range(5)]
    assert [seen.get(timeout=30.0) for _ in range(5)] == expected
    world.remove_on_tick(number)
    world.tick()
    later: queue.Queue[int] = queue.Queue()
    world.on_tick(lambda snapshot: later.put(snapshot.frame))
    frame = world.tick()
    assert later.get(timeout=30.0) == frame
    assert seen.empty()


SCENES = [
    push_cars,
    pass_through_others,
    command_cars,
    command_walkers,
    command_what_python_has_no_names_for,
    see_nothing_without_rendering,
    keep_aside,
    be_called_at_every_tick,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_real_client(scene, blank_server, isolated):
    isolated(scene, blank_server.port)
