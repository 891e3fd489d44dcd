"""Autopilots in a world without its server: lanes, distances, lights, routes and lane changes."""

import numpy as np
import pytest

from carla_bridge.simulator.actors.actor import RED, Vehicle
from carla_bridge.simulator.actors.collisions import footprints, overlapping_pairs
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town
from carla_bridge.simulator.town.road_network import RoadKind
from carla_bridge.simulator.town.road_signals import STOP_LINE
from tests.support.world_tools import new_world, off_centre, populate, run

LONG_VEHICLES = ("mitsubishi.fusorosa", "carlamotors.firetruck", "carlamotors.european_hgv")


@pytest.fixture(scope="module")
def town():
    return build_town(0)


def test_traffic_keeps_its_lanes_and_its_distance(town):
    world = new_world(town)
    cars = populate(world, 40)
    worst = 0.0
    for tick, hits in enumerate(run(world, 80)):
        assert not hits, [(hit.actor.blueprint, hit.other.blueprint) for hit in hits]
        if tick % 20 == 0 and tick > 100:
            straight = [c for c in cars if not world.traffic.drivers[c.id].changing]
            worst = max(worst, *(off_centre(world, car) for car in straight))
    assert worst < 0.8
    assert not overlapping_pairs(footprints(cars))
    assert sum(car.travelled for car in cars) / len(cars) / 80 > 2.5, "traffic flows"
    assert min(car.travelled for car in cars) > 20, "nobody is stuck"


def test_long_vehicles_turn_past_those_who_wait_and_those_who_come(town):
    world = new_world(town)
    vehicles = populate(world, 36, names=[f"vehicle.{name}" for name in LONG_VEHICLES])
    for hits in run(world, 60):
        assert not hits, [(hit.actor.pose, hit.other.pose) for hit in hits]
    assert min(vehicle.travelled for vehicle in vehicles) > 20, "nobody is stuck"


def test_vehicles_stop_at_red_and_go_at_green(town):
    world = new_world(town)
    lanes = [lane for lane in world.network.lanes if lane.kind is RoadKind.STREET]
    light_of = world.traffic._lights
    lane = next(lane for lane in lanes if lane.id in light_of and lane.length > 50)
    x, y, yaw, _ = lane.samples[10]
    car = world.spawn("vehicle.tesla.model3", [], Pose(x, y, 0.0, yaw=np.degrees(yaw)), None)
    for light in world.signal_groups[light_of[lane.id].id].lights:
        light.frozen, light.state = True, RED
    world.traffic.register(car)
    for _ in run(world, 30):
        pass
    driver = world.traffic.drivers[car.id]
    front = driver.s + car.extent[0]
    assert driver.lane is lane
    assert lane.length - STOP_LINE - 3.0 < front <= lane.length - STOP_LINE
    assert abs(car.speed) < 0.05
    assert car.waits_at is light_of[lane.id]
    light_of[lane.id].state = 2
    for _ in run(world, 8):
        pass
    assert driver.lane is not lane


def test_a_routed_vehicle_arrives_on_the_highway(town):
    world = new_world(town)
    network = world.network
    goals = [lane for lane in network.lanes if lane.kind is RoadKind.HIGHWAY and lane.id[1] == -1]
    start = next(lane for lane in network.lanes if lane.kind is RoadKind.STREET and lane.length > 40)
    x, y, yaw, _ = start.samples[12]
    car = world.spawn("vehicle.audi.tt", [], Pose(x, y, 0.0, yaw=np.degrees(yaw)), None)
    driver = world.traffic.register(car)
    driver.follow([goals[0]])
    for _ in run(world, 400):
        if driver.lane is goals[0]:
            break
    assert driver.lane is goals[0]
    for _ in run(world, 40):
        pass
    assert driver.lane.kind is RoadKind.HIGHWAY
    assert car.speed > 18, "highway speed"
    driver.follow([start])
    for _ in run(world, 600):
        if driver.lane is start:
            break
    assert driver.lane is start, "and comes back into the city"


def test_traffic_stops_for_what_stands_in_the_way(town):
    world = new_world(town)
    lane = next(lane for lane in world.network.lanes if lane.kind is RoadKind.HIGHWAY and lane.id[1] == -3)
    for name, place in (("vehicle.tesla.model3", 60), ("walker.pedestrian.0001", 220)):
        x, y, yaw, _ = lane.samples[place]
        actor = world.spawn(name, [], Pose(x, y, 1.0, yaw=np.degrees(yaw)), None)
        if isinstance(actor, Vehicle):
            driver = world.traffic.register(actor)
            driver.settings.changes_lanes = False
    for hits in run(world, 30):
        assert not hits
    assert driver.s < 219
    assert abs(driver.vehicle.speed) < 0.2


def test_vehicles_overtake(town):
    world = new_world(town)
    lane = next(lane for lane in world.network.lanes if lane.kind is RoadKind.HIGHWAY and lane.id[1] == -2)
    drivers = []
    for name, place in (("vehicle.tesla.model3", 100), ("vehicle.carlamotors.european_hgv", 150)):
        x, y, yaw, _ = lane.samples[place]
        drivers.append(world.traffic.register(world.spawn(name, [], Pose(x, y, 0.0, yaw=np.degrees(yaw)), None)))
    fast, slow = drivers
    slow.settings.desired_speed = 40.0
    slow.settings.changes_lanes = False
    for hits in run(world, 60):
        assert not hits
    assert fast.vehicle.travelled > slow.vehicle.travelled + 150


def test_vehicles_follow_orders_to_change_lane(town):
    world = new_world(town)
    lane = next(lane for lane in world.network.lanes if lane.kind is RoadKind.HIGHWAY and lane.id[1] == -2)
    x, y, yaw, _ = lane.samples[100]
    car = world.spawn("vehicle.tesla.model3", [], Pose(x, y, 0.0, yaw=np.degrees(yaw)), None)
    driver = world.traffic.register(car)
    driver.settings.changes_lanes = False
    driver.settings.forced_change = True
    for hits in run(world, 6):
        assert not hits
    assert driver.lane.id[1] == -1
    driver.settings.forced_change = False
    for hits in run(world, 8):
        assert not hits
    assert driver.lane.id[1] == -2
    assert off_centre(world, car) < 0.5


@pytest.mark.parametrize("behind", [0, 3, 6])
def test_two_that_want_the_lane_between_them_take_turns(town, behind):
    world = new_world(town)
    middle = next(lane for lane in world.network.lanes if lane.kind is RoadKind.HIGHWAY and lane.id[1] == -2)
    assert middle.left is not None
    assert middle.right is not None
    drivers = []
    for lane, place in ((middle.left, 100), (middle.right, 100 - behind)):
        x, y, yaw, _ = lane.samples[place]
        car = world.spawn("vehicle.tesla.model3", [], Pose(x, y, 0.0, yaw=np.degrees(yaw)), None)
        drivers.append(world.traffic.register(car))
    for driver, to_the_left in zip(drivers, (False, True), strict=True):
        driver.settings.changes_lanes = False
        driver.settings.forced_change = to_the_left
    for hits in run(world, 12):
        assert not hits
    assert middle in [driver.lane for driver in drivers]
