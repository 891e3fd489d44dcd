"""A thousand simulated seconds of traffic, without server or pictures: does everybody stay in lane and apart?

python -m benchmarks.traffic_soak [--seconds 1000] [--vehicles 60] [--mixes 3]
"""

import argparse
import json
import time
from math import radians

import numpy as np

from carla_bridge.simulator.episode import EpisodeSettings
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.town.build import build_town, spawn_points
from carla_bridge.simulator.world import World

STEP = 0.05
SETTLED = 10.0
"""Seconds after which every vehicle has found its lane."""


def main() -> None:
    """Print a JSON line for each mix of vehicles; exit code 1 if anybody collided or left the lane."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--seconds", type=float, default=1000.0)
    options.add_argument("--vehicles", type=int, default=60)
    options.add_argument("--mixes", type=int, default=3, help="how many random choices of vehicles, one after another")
    arguments = options.parse_args()
    wrong = False
    for mix in range(1, arguments.mixes + 1):
        figures = soak(arguments.seconds, arguments.vehicles, mix)
        print(json.dumps({"benchmark": "traffic soak", "mix": mix, **figures}), flush=True)
        wrong |= figures["collisions"] > 0 or figures["metres_off_centre_at_most"] > 1.0
    if wrong:
        raise SystemExit("traffic collided or left its lanes")


def soak(seconds: float, vehicles: int, mix: int) -> dict[str, float]:
    """Run the traffic and watch it."""
    town, network = build_town(0)
    world = World(town, network, 0)
    world.settings = EpisodeSettings(synchronous=True, fixed_delta=STEP)
    models = [name for name in world.library if name.startswith("vehicle.")]
    random = np.random.default_rng(mix)
    for place in spawn_points(network):
        if len(world.traffic.drivers) == vehicles:
            break
        try:
            number = world.spawn(models[int(random.integers(len(models)))], [], place, None).id
        except RefusedError:
            continue
        world.traffic.register(world.vehicle(number))
    drivers = list(world.traffic.drivers.values())
    collisions, worst, cpu = 0, 0.0, 0.0
    standing, longest = dict.fromkeys(drivers, 0.0), 0.0
    for tick in range(round(seconds / STEP)):
        start = time.process_time()
        collisions += len(world.step())
        cpu += time.process_time() - start
        if tick % 10 == 0:
            for driver in drivers:
                moves = abs(driver.vehicle.speed) > 0.1
                standing[driver] = 0.0 if moves else standing[driver] + 10 * STEP
                longest = max(longest, standing[driver])
                if not driver.changing and world.elapsed > SETTLED:
                    pose = driver.vehicle.pose
                    worst = max(worst, network.nearest(pose.x, pose.y, radians(pose.yaw))[2])
    return {
        "seconds": seconds,
        "vehicles": len(drivers),
        "collisions": collisions,
        "metres_off_centre_at_most": round(worst, 3),
        "seconds_standing_at_most": round(longest, 1),
        "cpu_ms_per_tick": round(1000 * cpu / max(1, round(seconds / STEP)), 3),
    }


if __name__ == "__main__":
    main()
