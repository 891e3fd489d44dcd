"""A world without its server, peopled and stepped as fast as possible."""

from math import radians

import numpy as np

from carla_bridge.simulator.actors.actor import Vehicle
from carla_bridge.simulator.episode import EpisodeSettings
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.town.build import spawn_points
from carla_bridge.simulator.world import World

STEP = 0.05


def new_world(town, seed=0, step=STEP):
    scene, network = town
    world = World(scene, network, seed)
    world.settings = EpisodeSettings(synchronous=True, fixed_delta=step)
    return world


def populate(world, count, seed=1, names=None):
    """Vehicles of the named kinds, or of all, at the first free spawn points, on autopilot."""
    names = names or [name for name in world.library if name.startswith("vehicle.")]
    random = np.random.default_rng(seed)
    cars: list[Vehicle] = []
    for place in spawn_points(world.network):
        if len(cars) == count:
            break
        try:
            car = world.spawn(names[int(random.integers(len(names)))], [], place, None)
        except RefusedError:
            continue
        world.traffic.register(car)
        cars.append(car)
    assert len(cars) == count
    return cars


def run(world, seconds):
    for _ in range(round(seconds / world.settings.step)):
        yield world.step()


def off_centre(world, car):
    """Distance of a vehicle from the centre line of its lane."""
    return world.network.nearest(car.pose.x, car.pose.y, radians(car.pose.yaw))[2]
