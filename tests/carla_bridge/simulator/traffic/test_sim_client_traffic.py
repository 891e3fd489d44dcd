"""Traffic lights, walkers and the traffic manager, used by the real CARLA client in a separate process."""

import random

import carla
import pytest

from carla_bridge.simulator.town.road_signals import STOP_LINE
from tests.support.carla_client import STEP, blueprint, connect, fresh

pytest_plugins = ("tests.support.simulator_servers",)


def switch_lights(port):
    client, world = connect(port)
    world = fresh(client)
    world.tick()
    lights = list(world.get_actors().filter("traffic.traffic_light"))
    assert len(lights) > 50
    light = lights[0]
    group = light.get_group_traffic_lights()
    assert light.id in [member.id for member in group]
    seen = set()
    for _ in range(int(70 / STEP)):
        world.tick()
        shown = [member.state for member in group]
        assert sum(state != carla.TrafficLightState.Red for state in shown) <= 1
        seen.add(light.state)
    assert seen == {carla.TrafficLightState.Red, carla.TrafficLightState.Yellow, carla.TrafficLightState.Green}
    light.set_green_time(3.0)
    light.set_yellow_time(1.0)
    light.set_red_time(0.5)
    light.freeze(True)
    light.set_state(carla.TrafficLightState.Green)
    world.tick()
    for _ in range(200):
        world.tick()
    assert light.state == carla.TrafficLightState.Green
    assert light.is_frozen()
    assert light.get_green_time() == 3.0
    world.freeze_all_traffic_lights(False)
    light.reset_group()
    world.reset_all_traffic_lights()
    assert len(light.get_light_boxes()) == 2
    stops = light.get_stop_waypoints()
    lanes = {(waypoint.road_id, waypoint.lane_id) for waypoint in light.get_affected_lane_waypoints()}
    assert stops
    assert {(waypoint.road_id, waypoint.lane_id) for waypoint in stops} <= lanes
    assert world.get_traffic_light_from_opendrive_id(light.get_opendrive_id()).id == light.id


def stop_before_junctions(port):
    client, world = connect(port)
    world = fresh(client)
    world.tick()
    town = world.get_map()
    for light in world.get_actors().filter("traffic.traffic_light"):
        _, junction, road = light.get_opendrive_id().split("_")
        affected = [waypoint for waypoint in light.get_affected_lane_waypoints() if not waypoint.is_junction]
        lanes = sorted(waypoint.lane_id for waypoint in affected)
        stops = light.get_stop_waypoints()
        assert {waypoint.road_id for waypoint in (*affected, *stops)} == {int(road)}
        assert sorted(waypoint.lane_id for waypoint in stops) == lanes, "one for every lane"
        pose, box = light.get_transform(), light.trigger_volume
        for stop in stops:
            assert not stop.is_junction
            onward = stop.next(STOP_LINE + 1.0)
            assert onward
            assert all(waypoint.junction_id == int(junction) for waypoint in onward)
            right = stop.transform.get_right_vector()
            assert pose.get_forward_vector().dot(right) == pytest.approx(1.0), "CARLA's lights point across the road"
            assert box.contains(stop.transform.location + carla.Location(z=0.1), pose)
        assert 2 * box.extent.x == pytest.approx(sum(waypoint.lane_width for waypoint in stops))
        middle = carla.Location(box.location)
        assert town.get_waypoint(pose.transform(middle)).road_id == int(road)


def walk(port):
    client, world = connect(port)
    world = fresh(client)
    world.set_pedestrians_seed(7)
    walkers = []
    for bp in list(world.get_blueprint_library().filter("walker.pedestrian.*"))[:10]:
        place = world.get_random_location_from_navigation()
        place.z += 1.0
        walker = world.try_spawn_actor(bp, carla.Transform(place))
        if walker is not None:
            walkers.append(walker)
    assert len(walkers) >= 8
    free = walkers.pop()
    world.tick()
    controllers = [
        world.spawn_actor(blueprint(world, "controller.ai.walker"), carla.Transform(), walker) for walker in walkers
    ]
    world.tick()
    for controller in controllers:
        controller.start()
        controller.go_to_location(world.get_random_location_from_navigation())
        controller.set_max_speed(1.4)
    free.apply_control(carla.WalkerControl(carla.Vector3D(0, 1, 0), 2.0))
    before = [walker.get_location() for walker in walkers]
    alone = free.get_location()
    for _ in range(200):
        world.tick()
    moved = [walker.get_location().distance(place) for walker, place in zip(walkers, before, strict=True)]
    assert sum(distance > 4 for distance in moved) >= len(walkers) // 2, moved
    assert free.get_location().distance(alone) == pytest.approx(20.0, abs=0.2)
    town = world.get_map()
    for walker in walkers:
        place = walker.get_location()
        assert place.z == pytest.approx(walker.bounding_box.extent.z, abs=0.01)
        pavement = town.get_waypoint(place, lane_type=carla.LaneType.Sidewalk)
        assert pavement.transform.location.distance(place) < 11.0, "on a pavement, or crossing between two"
    for controller in controllers:
        controller.stop()
    for actor in (*controllers, *walkers, free):
        assert actor.destroy()


def manage_traffic(port):
    client, world = connect(port)
    world = fresh(client)
    manager = client.get_trafficmanager(8000)
    manager.set_synchronous_mode(True)
    manager.set_random_device_seed(11)
    manager.set_global_distance_to_leading_vehicle(2.0)
    manager.global_percentage_speed_difference(10.0)
    manager.set_hybrid_physics_mode(False)
    models = list(world.get_blueprint_library().filter("vehicle.*"))
    chooser = random.Random(3)
    command = carla.command
    batch = [
        command.SpawnActor(chooser.choice(models), place).then(
            command.SetAutopilot(command.FutureActor, True, manager.get_port())
        )
        for place in world.get_map().get_spawn_points()[:25]
    ]
    ids = [answer.actor_id for answer in client.apply_batch_sync(batch, True) if not answer.error]
    assert len(ids) >= 20
    cars = [world.get_actor(number) for number in ids]
    one = cars[0]
    manager.vehicle_percentage_speed_difference(one, -20)
    manager.set_desired_speed(cars[1], 10.0)
    manager.vehicle_lane_offset(one, 0.3)
    manager.distance_to_leading_vehicle(one, 4.0)
    manager.ignore_lights_percentage(one, 0)
    manager.ignore_walkers_percentage(one, 0)
    manager.ignore_vehicles_percentage(one, 0)
    manager.ignore_signs_percentage(one, 0)
    manager.auto_lane_change(one, False)
    manager.force_lane_change(one, True)
    manager.keep_slow_lane_rule_percentage(one, 10)
    manager.random_left_lanechange_percentage(one, 10)
    manager.random_right_lanechange_percentage(one, 10)
    manager.collision_detection(one, cars[1], True)
    manager.set_route(cars[2], ["Straight", "Left", "Right"])
    start = [car.get_location() for car in cars]
    for _ in range(300):
        world.tick()
        assert cars[1].get_velocity().length() < 10 / 3.6 + 0.5
    moved = [car.get_location().distance(place) for car, place in zip(cars, start, strict=True)]
    assert sum(distance > 5 for distance in moved) > len(cars) // 2
    with pytest.raises(RuntimeError, match="set_osm_mode"):
        manager.set_osm_mode(True)
    one.set_autopilot(False, manager.get_port())
    one.apply_control(carla.VehicleControl(brake=1.0))
    for _ in range(120):
        world.tick()
    assert one.get_velocity().length() < 0.01
    client.apply_batch_sync([command.DestroyActor(number) for number in ids], True)
    manager.set_global_distance_to_leading_vehicle(0.0)
    manager.global_percentage_speed_difference(0.0)


def change_speeds(port):
    """Of a desired speed and a percentage of the limit, the last one set holds."""
    client, world = connect(port)
    world = fresh(client)
    manager = client.get_trafficmanager()
    places = [p for p in world.get_map().get_spawn_points() if p.location.y < -480 and abs(p.location.x) < 300]
    car = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), places[0])
    car.set_autopilot(True)

    def settled_speed():
        for _ in range(int(15 / STEP)):
            world.tick()
        return 3.6 * car.get_velocity().length()

    manager.set_desired_speed(car, 20.0)
    assert settled_speed() == pytest.approx(20, abs=2)
    manager.vehicle_percentage_speed_difference(car, 60.0)
    assert settled_speed() == pytest.approx(0.4 * 90, rel=0.15), "drivers keep to limits more or less"
    manager.set_desired_speed(car, 20.0)
    assert settled_speed() == pytest.approx(20, abs=2)
    car.destroy()


def keep_settings(port):
    client, _ = connect(port)
    manager = client.get_trafficmanager()
    manager.set_random_device_seed(4)
    manager.global_percentage_speed_difference(80.0)

    def drive():
        world = client.reload_world(False)  # still synchronous, so that the lights do not run ahead
        places = world.get_map().get_spawn_points()[:6]
        cars = [world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), place) for place in places]
        for car in cars:
            car.set_autopilot(True)
        fastest = 0.0
        for _ in range(int(20 / STEP)):
            world.tick()
            fastest = max(fastest, *(car.get_velocity().length() for car in cars))
        return fastest, [(car.get_location().x, car.get_location().y) for car in cars]

    first = drive()
    second = drive()
    assert first[0] < 0.2 * 1.05 * 90 / 3.6 + 0.5, "80 % slower, after a new episode too"
    assert second == first, "and with the same seed"
    manager.set_random_device_seed(5)
    assert drive() != first


@pytest.mark.parametrize(
    "scene",
    [switch_lights, stop_before_junctions, walk, manage_traffic, change_speeds],
    ids=lambda scene: scene.__name__,
)
def test_real_client(scene, blank_server, isolated):
    isolated(scene, blank_server.port)


def test_what_the_manager_was_told_outlives_an_episode(new_server, isolated):
    isolated(keep_settings, new_server().port)
