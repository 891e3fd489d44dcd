"""Removing actors with everything that is attached to them."""

import pytest

from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town, spawn_points
from tests.support.world_tools import new_world


@pytest.fixture(scope="module")
def town():
    return build_town(0)


def test_a_long_chain_of_attachments_goes_as_one(town):
    world = new_world(town)
    places = spawn_points(world.network)
    car, other = (world.spawn("vehicle.audi.tt", [], place, None) for place in places[:2])
    world.traffic.register(car)
    kept = world.spawn("sensor.other.gnss", [], Pose(0.0, 0.0, 1.0), other.id)
    last = car
    for _ in range(1500):
        last = world.spawn("sensor.other.gnss", [], Pose(0.0, 0.0, 0.0), last.id)
    before = set(world.actors)
    world.step()
    assert world.destroy(car.id)
    gone = before - set(world.actors)
    assert gone == {car.id, *range(kept.id + 1, last.id + 1)}
    assert car.id not in world.traffic.drivers
    assert not world.destroy(last.id)
    world.step()
