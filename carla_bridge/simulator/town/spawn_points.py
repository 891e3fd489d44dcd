"""Where vehicles may start: on every lane between junctions, in the city and on the highway."""

from math import degrees

import numpy as np

from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.road_network import RoadKind, RoadNetwork

CITY_SPACING, HIGHWAY_SPACING = 16.0, 70.0
FROM_ENDS = 12.0
HEIGHT = 0.3


def spawn_points(network: RoadNetwork) -> list[Pose]:
    """All spawn points, mixed so that the first ones already lie in both parts of the map."""
    places: list[Pose] = []
    for lane in network.lanes:
        if lane.junction is None:
            spacing = HIGHWAY_SPACING if lane.kind is RoadKind.HIGHWAY else CITY_SPACING
            for s in np.arange(FROM_ENDS, lane.length - FROM_ENDS, spacing):
                x, y, yaw, _ = lane.centre.sample(np.array([s]))[0]
                places.append(Pose(float(x), float(y), HEIGHT, yaw=float(degrees(yaw))))
    order = np.random.default_rng(16).permutation(len(places))
    return [places[number] for number in order]
