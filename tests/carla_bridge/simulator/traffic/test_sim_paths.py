"""Paths given to the traffic manager: vehicles drive along them, and nowhere else."""

import random
from math import degrees, hypot

import numpy as np
import pytest

from carla_bridge.simulator.protocol.traffic_manager import TrafficManagerMethods
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town
from tests.support.carla_client import STEP, blueprint, connect, fresh
from tests.support.world_tools import new_world, run

pytest_plugins = ("tests.support.simulator_servers",)


@pytest.fixture(scope="module")
def town():
    return build_town(0)


def start_on(world, lane):
    """An autopilot at the beginning of a lane."""
    x, y, yaw, _ = lane.samples[6].tolist()
    car = world.spawn("vehicle.tesla.model3", [], Pose(x, y, 0.0, yaw=degrees(yaw)), None)
    return world.traffic.register(car)


def walk(network, chooser, roads):
    """Lanes over this many roads, at random; no lane twice, so that a goal is one place on the way."""
    while True:
        way = [chooser.choice([lane for lane in network.lanes if lane.junction is None and lane.length < 200])]
        while len(way) < 2 * roads - 1:
            way.append(chooser.choice(way[-1].successors))
        if len(set(way)) == len(way):
            return way


def places(lanes, spacing):
    rows = np.concatenate([lane.samples[:-1:spacing] for lane in lanes])
    return [[x, y, 0.0] for x, y in rows[:, :2].tolist()]


@pytest.mark.parametrize("spacing", [1, 2, 5, 9])
def test_the_route_is_the_path_through_every_junction(town, spacing):
    world, chooser = new_world(town), random.Random(spacing)
    manager = TrafficManagerMethods(world)
    for _ in range(25):
        way = walk(world.network, chooser, roads=7)
        driver = start_on(world, way[0])
        manager.set_path([driver.vehicle.id], places(way, spacing), True)
        assert driver.route[: len(way)] == way
        world.destroy(driver.vehicle.id)


def test_one_place_on_each_road_is_enough(town):
    world, chooser = new_world(town), random.Random(0)
    manager = TrafficManagerMethods(world)
    for _ in range(25):
        way = walk(world.network, chooser, roads=7)
        driver = start_on(world, way[0])
        path = [[*lane.samples[len(lane.samples) // 2, :2].tolist(), 0.0] for lane in way]
        manager.set_path([driver.vehicle.id], path, True)
        assert driver.route[: len(way)] == way
        world.destroy(driver.vehicle.id)


def test_a_path_that_changes_lane_is_followed(town):
    world = new_world(town)
    start = next(lane for lane in world.network.lanes if lane.left is not None and 60 < lane.length < 80)
    turn = next(way for way in start.left.successors if way not in start.successors)
    half = len(start.samples) // 2
    driver = start_on(world, start)
    path = places([start], 2)[: half // 2] + places([start.left], 2)[half // 2 :] + places([turn, *turn.successors], 2)
    TrafficManagerMethods(world).set_path([driver.vehicle.id], path, True)
    visited = []
    for _ in run(world, 80):
        if driver.lane not in visited:
            visited.append(driver.lane)
    assert visited[:4] == [start, start.left, turn, turn.successors[0]]
    assert not driver.goals, "the path is done, the driver may overtake again"


def test_a_change_of_lane_that_others_prevent_costs_no_detour(town):
    world = new_world(town)
    start = next(lane for lane in world.network.lanes if lane.left is not None and 60 < lane.length < 80)
    driver = start_on(world, start)
    path = places([start], 2)[:15] + places([start.left], 2)[15:]
    TrafficManagerMethods(world).set_path([driver.vehicle.id], path, True)
    assert driver.neighbour_wanted() is start.left
    driver.give_up_change()
    assert start.left not in driver.route
    assert not driver.goals


def test_a_path_that_ends_in_a_junction_ends_on_the_right_way_through_it(town):
    world, chooser = new_world(town), random.Random(2)
    manager = TrafficManagerMethods(world)
    for _ in range(25):
        way = walk(world.network, chooser, roads=4)[:-1]
        driver = start_on(world, way[0])
        manager.set_path([driver.vehicle.id], places(way, 2), True)
        assert driver.route[: len(way)] == way
        world.destroy(driver.vehicle.id)


def test_a_place_in_a_junction_is_reached(town):
    world = new_world(town)
    way = walk(world.network, random.Random(0), roads=4)
    driver = start_on(world, way[0])
    x, y = way[-2].samples[len(way[-2].samples) // 2, :2].tolist()
    TrafficManagerMethods(world).set_path([driver.vehicle.id], [[x, y, 0.0]], True)
    car = driver.vehicle.pose
    for _ in run(world, 150):
        car = driver.vehicle.pose
        if hypot(car.x - x, car.y - y) < 2.0:
            break
    assert hypot(car.x - x, car.y - y) < 2.0


def follow_paths(port):
    client, world = connect(port)
    world = fresh(client)
    manager = client.get_trafficmanager()
    chooser = random.Random(5)
    town = world.get_map()
    for place in town.get_spawn_points()[:4]:
        way = [town.get_waypoint(place.location)]
        while len(way) < 200:
            way.append(chooser.choice(way[-1].next(2.0)))
        path = [waypoint.transform.location for waypoint in way]
        assert len({waypoint.junction_id for waypoint in way if waypoint.is_junction}) >= 3
        car = world.spawn_actor(blueprint(world, "vehicle.tesla.model3"), place)
        world.tick()
        car.set_autopilot(True)
        manager.ignore_lights_percentage(car, 100)
        manager.set_path(car, path)
        for _ in range(int(150 / STEP)):
            world.tick()
            here = car.get_location()
            assert min(here.distance(point) for point in path) < 3.0
            if here.distance(path[-1]) < 3.0:
                break
        else:
            pytest.fail(f"did not arrive from {place}")
        car.destroy()


def test_real_client(blank_server, isolated):
    isolated(follow_paths, blank_server.port)
