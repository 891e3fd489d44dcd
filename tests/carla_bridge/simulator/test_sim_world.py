"""The world without its server: traffic, routes, determinism, lights and the map, stepped as fast as possible."""

from math import cos, hypot, radians, sin

import numpy as np
import pytest

from carla_bridge.simulator.actors.actor import RED, Vehicle
from carla_bridge.simulator.actors.collisions import footprints, overlapping_pairs
from carla_bridge.simulator.catalogue.semantics import FIRST_STATIC_ID, next_actor_id
from carla_bridge.simulator.protocol.world_state import WorldStateWriter
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town, spawn_points
from carla_bridge.simulator.town.layout import build_roads
from carla_bridge.simulator.town.road_network import LaneType, RoadKind
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


def test_same_seed_same_world(town):
    def states(seed):
        world = new_world(town, seed)
        populate(world, 25, seed=4)
        for _ in run(world, 15):
            pass
        # everything but the wall clock, which is bytes 60 to 68
        message = WorldStateWriter(world).message(map_changed=False)
        return message[:60] + message[68:]

    assert states(3) == states(3)
    assert states(3) != states(4)


def test_a_new_episode_keeps_the_managers_settings_and_forgets_its_vehicles(town):
    world = new_world(town)
    world.traffic.reseed(9)
    world.traffic.settings.speed_difference = 30.0
    car = populate(world, 1)[0]
    world.traffic.settings_of(car).desired_speed = 20.0
    speed_factor = world.traffic.drivers[car.id].speed_factor
    world.start_episode()
    assert not world.traffic.drivers
    car = populate(world, 1)[0]
    driver = world.traffic.drivers[car.id]
    assert driver.speed_factor == speed_factor, "the same seed, from its beginning"
    assert driver.settings.desired_speed is None
    limit = driver.lane.speed_limit / 3.6
    assert max(car.speed for _ in run(world, 8)) == pytest.approx(0.7 * speed_factor * limit, rel=0.05)


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


def test_a_crash_is_reported_and_stops_the_car(town):
    world = new_world(town)
    building = next(thing for thing in world.town.objects if thing.kind == "noise_wall")
    wall = building.pose
    start = Pose(wall.x, wall.y + 2.6, 0.0, yaw=-90.0)
    car = world.spawn("vehicle.micro.microlino", [], start, None)
    car.control.throttle = 1.0
    hits = [hit for tick in run(world, 4) for hit in tick]
    assert hits[0].actor is car
    assert hits[0].other.blueprint == "static.noise_wall"
    assert car.pose.y > wall.y


def test_every_lane_leads_somewhere_and_from_anywhere_to_anywhere():
    network = build_roads()
    for lane in network.lanes:
        for following in lane.successors:
            x, y, yaw = lane.centre.end
            assert hypot(x - following.centre.x, y - following.centre.y) < 1e-6
            assert cos(yaw - following.centre.yaw) == pytest.approx(1.0)
    for forward in (True, False):
        seen, todo = {network.lanes[0]}, [network.lanes[0]]
        while todo:
            lane = todo.pop()
            onward = lane.successors if forward else lane.predecessors
            beside = [other for other in (lane.left, lane.right) if other is not None]
            new = [other for other in (*onward, *beside) if other not in seen]
            seen.update(new)
            todo += new
        assert len(seen) == len(network.lanes)


def test_nothing_of_the_map_stands_on_a_lane(town):
    scene, network = town
    points = np.concatenate([lane.samples[:, :2] for lane in network.lanes])
    for thing in scene.objects:
        if thing.pose.z > 2.0 or thing.kind in ("gantry", "lamp", "traffic_light_pole"):
            continue
        trunk = thing.kind in ("tree", "conifer")
        half = (0.3, 0.3) if trunk else (thing.size[0] / 2, thing.size[1] / 2)
        yaw = radians(thing.pose.yaw)
        dx, dy = points[:, 0] - thing.pose.x, points[:, 1] - thing.pose.y
        ahead, aside = np.abs(dx * cos(yaw) + dy * sin(yaw)), np.abs(-dx * sin(yaw) + dy * cos(yaw))
        assert not np.any((ahead < half[0] + 1.4) & (aside < half[1] + 1.4)), thing


def test_instance_ids_of_map_and_actors_never_meet(town):
    scene, _ = town
    ids = [thing.object_id for thing in scene.objects if thing.object_id and thing.kind != "traffic_light"]
    assert len(ids) == len(set(ids))
    assert min(ids) >= FIRST_STATIC_ID
    assert max(ids) < 0x10000
    number, seen = 0, []
    for _ in range(200_000):
        number = next_actor_id(number)
        seen.append(number)
    low = np.array(seen) % 0x10000
    assert low.min() > 0
    assert low.max() < FIRST_STATIC_ID
    assert np.all(np.diff(seen) > 0)


def test_spawn_points_are_free_and_in_both_parts(town):
    _, network = town
    world = new_world(town)
    kinds = set()
    for place in spawn_points(network)[:250]:
        lane, _, aside = network.nearest(place.x, place.y, radians(place.yaw))
        kinds.add(lane.kind)
        assert aside < 0.2
        world.destroy(world.spawn("vehicle.mitsubishi.fusorosa", [], place, None).id)
    assert {RoadKind.STREET, RoadKind.AVENUE, RoadKind.HIGHWAY} <= kinds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_change_the_houses_and_not_the_roads(town, seed):
    scene, network = build_town(seed)
    assert scene.objects != town[0].objects
    assert [road.reference for road in network.roads.values()] == [r.reference for r in town[1].roads.values()]
    assert build_town(seed)[0].objects == scene.objects
    assert all(
        lane.width > 0 for road in network.roads.values() for lane in road.right if lane.type is LaneType.DRIVING
    )
