"""How fast the simulator's renderer draws: pictures per second of one core, city and highway.

    python -m benchmarks.renderer [--seconds 4]

Every picture is a new moment: 40 vehicles and 20 walkers move between frames, and the camera drives. Time is the
process's own CPU time, so that a busy machine does not change the answer; wall time is shown beside it.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from math import degrees

import cv2
import numpy as np

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.catalogue.vehicle_models import vehicle_models
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import CameraView, Moment, MovingObject, Pose, Town, Weather
from carla_bridge.simulator.town.build import build_town
from carla_bridge.simulator.town.road_network import RoadKind, RoadNetwork

CITY = (RoadKind.STREET, RoadKind.AVENUE)
HIGHWAY = (RoadKind.HIGHWAY,)


def traffic(network: RoadNetwork, kinds: Sequence[RoadKind], vehicles: int, walkers: int) -> list[MovingObject]:
    """Vehicles spread over lanes of the given kinds, walkers beside them."""
    rng = np.random.default_rng(1)
    lanes = [lane for lane in network.lanes if lane.kind in kinds and lane.length > 20]
    models = vehicle_models()
    actors = []
    for number in range(vehicles + walkers):
        samples = lanes[int(rng.integers(len(lanes)))].samples
        x, y, yaw = samples[int(rng.integers(len(samples)))][:3].tolist()
        if number < vehicles:
            model = models[number % len(models)]
            colour = model.colours[number % len(model.colours)]
            pose = Pose(x, y, 0, yaw=degrees(yaw))
            actors.append(MovingObject(number + 1, model.blueprint, pose, model.extent, int(model.tag), colour))
        else:
            pose = Pose(x - 8 * np.sin(yaw), y + 8 * np.cos(yaw), 0, yaw=degrees(yaw))
            name = f"walker.pedestrian.{number:04d}"
            actors.append(MovingObject(number + 1, name, pose, (0.2, 0.2, 0.9), int(Tag.PEDESTRIAN)))
    return actors


def ticks(actors: Sequence[MovingObject], count: int) -> list[list[MovingObject]]:
    """The same actors a little farther on at every tick."""
    return [
        [
            actor._replace(
                pose=actor.pose._replace(
                    x=actor.pose.x + 0.05 * tick * np.cos(np.radians(actor.pose.yaw)),
                    y=actor.pose.y + 0.05 * tick * np.sin(np.radians(actor.pose.yaw)),
                ),
                gait=0.1 * tick,
            )
            for actor in actors
        ]
        for tick in range(count)
    ]


def drive(network: RoadNetwork, kinds: Sequence[RoadKind], size: tuple[int, int], count: int) -> list[CameraView]:
    """A camera that passes along several lanes."""
    lanes = [lane for lane in network.lanes if lane.kind in kinds and lane.length > 40]
    views = []
    for frame in range(count):
        samples = lanes[7 * (frame // 10) % len(lanes)].samples
        x, y, yaw = samples[(3 * frame) % len(samples)][:3].tolist()
        views.append(CameraView(Pose(x, y, 2.2, pitch=-3, yaw=degrees(yaw)), *size, 90.0))
    return views


def measure(
    renderer: PandaRenderer, moments: Sequence[Moment], views: Sequence[CameraView], seconds: float
) -> dict[str, float]:
    for moment, view in zip(moments[:60], views[:60], strict=True):
        renderer.draw(moment, [view])
    cpu, wall, frames = time.process_time(), time.perf_counter(), 0
    while time.process_time() - cpu < seconds:
        for picture in renderer.draw(moments[frames % len(moments)], [views[frames % len(views)]]):
            picture.finish()
        frames += 1
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"pictures_per_core_second": frames / cpu, "ms_per_picture": 1e3 * cpu / frames, "wall": frames / wall}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU seconds per row")
    settings = parser.parse_args(arguments)
    cv2.setNumThreads(1)
    town, network = build_town(0)
    start = time.process_time()
    renderer = PandaRenderer(town)
    print(json.dumps({"start_up_cpu_seconds": round(time.process_time() - start, 3)}))
    lights = lamps(town)
    for name, kinds, size, weather in (
        ("city", CITY, (416, 256), Weather()),
        ("highway", HIGHWAY, (416, 256), Weather()),
        ("city, rain at dusk", CITY, (416, 256), Weather(precipitation=60, wetness=60, sun_altitude=3)),
        ("city 800x600", CITY, (800, 600), Weather()),
    ):
        moments = [Moment.of(actors, lights, weather) for actors in ticks(traffic(network, kinds, 40, 20), 120)]
        row = measure(renderer, moments, drive(network, kinds, size, 120), settings.seconds)
        print(json.dumps({"scene": name} | {key: round(value, 2) for key, value in row.items()}))
    renderer.close()


def lamps(town: Town) -> dict[int, int]:
    ids = {thing.object_id for thing in town.objects if thing.kind == "traffic_light"}
    return {object_id: object_id % 3 for object_id in ids}


if __name__ == "__main__":
    main(sys.argv[1:])
