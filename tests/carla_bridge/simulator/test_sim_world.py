"""The world without its server: determinism, episodes and crashes."""

import pytest

from carla_bridge.simulator.actors.posing import in_range
from carla_bridge.simulator.protocol import wire
from carla_bridge.simulator.protocol.actor_methods import ActorMethods
from carla_bridge.simulator.protocol.world_state import WorldStateWriter
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town
from tests.support.world_tools import new_world, populate, run


@pytest.fixture(scope="module")
def town():
    return build_town(0)


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


def test_a_vehicle_starts_with_the_roads_own_yaw(town):
    """Clients see the same direction in [-180, 180); with that value the drive would differ in its last bits."""
    world = new_world(town)
    turned = [place for place in world.spawn_points if in_range(place) != place]
    assert len(turned) > 50
    cars = [world.spawn("vehicle.audi.tt", [], in_range(place), None) for place in turned[:3]]
    assert [car.pose for car in cars] == turned[:3]
    ActorMethods(world, 1).set_actor_transform(cars[0].id, wire.transform(turned[3]))
    assert cars[0].pose == turned[3]
    elsewhere = world.spawn("vehicle.audi.tt", [], Pose(1e4, 0.0, 0.0, yaw=17.0), None)
    assert elsewhere.pose.yaw == 17.0
