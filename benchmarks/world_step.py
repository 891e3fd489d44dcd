"""What the world itself costs in a tick of the embedded simulator, without sockets, client or pictures.

    python -m benchmarks.world_step [--ticks 1000] [--vehicles 40] [--walkers 20]

Prints microseconds per tick, the least and the median, of what the server does in every tick with a camera:

    advance   lights, vehicles, walkers and collisions
    moment    the table of all that moves, for the renderer, as the bytes that are sent
    state     the message of the world's state, for all clients
    decide    the autopilots' controls for the next tick

The least says most on a machine that others use too.
"""

import argparse
import json
import pickle
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from carla_bridge.simulator.actors.actor import Walker
from carla_bridge.simulator.actors.physics import place_walker
from carla_bridge.simulator.episode import EpisodeSettings
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol.world_state import WorldStateWriter
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.build import build_town, spawn_points
from carla_bridge.simulator.world import World

STEP = 0.05
WARM_UP = 100
"""Ticks until the vehicles are at their speed."""


def main() -> None:
    """Print one JSON line per part of a tick, and one for their sum."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--ticks", type=int, default=1000)
    options.add_argument("--vehicles", type=int, default=40)
    options.add_argument("--walkers", type=int, default=20)
    arguments = options.parse_args()
    world = populated(arguments.vehicles, arguments.walkers)
    state = WorldStateWriter(world)
    parts: dict[str, Callable[[], object]] = {
        "advance": world.advance,
        "moment": lambda: pickle.dumps(world.moment(), pickle.HIGHEST_PROTOCOL),
        "state": lambda: state.message(map_changed=False),
        "decide": world.decide,
    }
    spent: dict[str, list[float]] = {name: [] for name in parts}
    for tick in range(WARM_UP + arguments.ticks):
        stroll(world)
        for name, part in parts.items():
            start = time.perf_counter()
            part()
            if tick >= WARM_UP:
                spent[name].append(1e6 * (time.perf_counter() - start))
    spent["sum"] = [sum(tick) for tick in zip(*spent.values(), strict=True)]
    for name, times in spent.items():
        figures = {"microseconds_at_least": round(min(times), 1), "median": round(median(times), 1)}
        print(json.dumps({"benchmark": "world step", "part": name, **figures}), flush=True)


def populated(vehicles: int, walkers: int) -> World:
    """A town with traffic on all roads, walkers beside them and one pair of cameras."""
    town, network = build_town(0)
    world = World(town, network, 0)
    world.settings = EpisodeSettings(synchronous=True, fixed_delta=STEP)
    models = sorted(name for name in world.library if name.startswith("vehicle."))
    for place in spawn_points(network):
        taken = len(world.traffic.drivers)
        if taken < vehicles:
            try:
                number = world.spawn(models[taken % len(models)], [], place, None).id
            except RefusedError:
                continue
            world.traffic.register(world.vehicle(number))
    first = next(iter(world.traffic.drivers))
    for kind in ("rgb", "instance_segmentation"):
        world.spawn(f"sensor.camera.{kind}", [], Pose(1.2, 0.0, 1.6), first)
    people = sorted(name for name in world.library if name.startswith("walker."))
    random = np.random.default_rng(0)
    crowd = 0
    while crowd < walkers:
        lane = network.lanes[int(random.integers(len(network.lanes)))]
        x, y, yaw, _ = lane.samples[len(lane.samples) // 2].tolist()
        pose = Pose(x - 6.0 * np.sin(yaw), y + 6.0 * np.cos(yaw), 1.0)
        try:
            walker = world.spawn(people[crowd % len(people)], [], pose, None)
        except RefusedError:
            continue
        world.spawn("controller.ai.walker", [], Pose(0.0, 0.0, 0.0), walker.id)
        crowd += 1
    return world


def stroll(world: World) -> None:
    """Move the walkers as a client's crowd simulation does."""
    for walker in world.actors.values():
        if isinstance(walker, Walker):
            pose = walker.pose
            place_walker(walker, Pose(pose.x + 0.02, pose.y, 0.0, 0.0, pose.yaw), 0.4)


if __name__ == "__main__":
    main()
