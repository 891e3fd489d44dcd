"""Steps so long that drivers must decide more than once in one."""

from math import degrees

import pytest

from carla_bridge.simulator.actors.physics import place_walker
from carla_bridge.simulator.episode import EpisodeSettings
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town
from tests.support.world_tools import new_world, off_centre, populate, run


@pytest.fixture(scope="module")
def town():
    return build_town(0)


@pytest.mark.parametrize("step", [0.3, 0.5, 1.0])
def test_traffic_keeps_its_lanes_at_long_steps(town, step):
    world = new_world(town, step=step)
    cars = populate(world, 40)
    for tick, hits in enumerate(run(world, 60), start=1):
        assert world.frame == tick
        assert world.elapsed == pytest.approx(tick * step)
        assert not hits
        straight = [car for car in cars if not world.traffic.drivers[car.id].changing]
        assert max(off_centre(world, car) for car in straight) < 1.2
    assert sum(car.travelled for car in cars) / len(cars) / 60 > 2.5, "traffic flows"


@pytest.mark.parametrize(
    ("step", "pieces"), [(0.001, 1), (0.05, 1), (0.1, 1), (0.2, 1), (0.21, 3), (0.3, 3), (0.6, 6), (1.0, 10)]
)
def test_only_steps_longer_than_a_fifth_of_a_second_are_divided(step, pieces):
    assert EpisodeSettings(fixed_delta=step).pieces == pieces


def test_walkers_that_the_client_moves_keep_their_speed_in_a_long_step(town):
    world = new_world(town, step=1.0)
    walker = world.spawn("walker.pedestrian.0001", [], Pose(0.0, 300.0, 1.0), None)
    place_walker(walker, Pose(1.4, 300.0, 0.0, yaw=90.0), 1.4)
    world.step()
    assert walker.velocity == pytest.approx((0.0, 1.4, 0.0))
    assert (walker.pose.x, walker.pose.y) == (1.4, 300.0)
    world.step()
    assert walker.velocity == (0.0, 0.0, 0.0)


def test_a_crash_in_a_long_step_is_reported_once(town):
    world = new_world(town, step=1.0)
    lane = next(lane for lane in world.network.lanes if lane.length > 2000)
    cars = []
    for place in (100, 106):
        x, y, yaw, _ = lane.samples[place].tolist()
        cars.append(world.spawn("vehicle.tesla.model3", [], Pose(x, y, 0.0, yaw=degrees(yaw)), None))
    cars[0].control.throttle = 1.0
    reported = [[(hit.actor.id, hit.other.id) for hit in hits] for hits in run(world, 6)]
    first, second = (car.id for car in cars)
    assert [(first, second), (second, first)] in reported
    assert all(len(hits) == len(set(hits)) for hits in reported)
