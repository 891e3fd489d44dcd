"""The whole map from one seed: its roads, everything that is seen of it, and where vehicles may start."""

from math import degrees

import numpy as np

from carla_bridge.simulator.catalogue.semantics import FIRST_STATIC_ID
from carla_bridge.simulator.scene import Pose, Town
from carla_bridge.simulator.town.blocks import belt, city_blocks, fill_block
from carla_bridge.simulator.town.highway import line_highway, open_land
from carla_bridge.simulator.town.road_layout import build_roads
from carla_bridge.simulator.town.road_network import RoadKind, RoadNetwork
from carla_bridge.simulator.town.road_signals import speed_signs, traffic_lights
from carla_bridge.simulator.town.scenery import Scenery
from carla_bridge.simulator.town.streets import line_streets, put_up_lights, put_up_signs
from carla_bridge.simulator.town.surfaces import in_painters_order, network_surfaces

TOWN_NAME = "Carla/Maps/GridRing01"
CITY_SPACING, HIGHWAY_SPACING = 16.0, 70.0
"""Metres between spawn points of a lane."""
FROM_ENDS = 12.0
"""Metres between a spawn point and the end of its lane."""
SPAWN_HEIGHT = 0.3


def build_town(seed: int) -> tuple[Town, RoadNetwork]:
    """The town for a seed: the roads are always the same, houses, trees and parked cars vary."""
    network = build_roads()
    lights = traffic_lights(network)
    signs = speed_signs(network, FIRST_STATIC_ID + len(lights))
    scenery = Scenery(np.random.default_rng([seed, 1]), FIRST_STATIC_ID + len(lights) + len(signs))
    put_up_lights(lights, scenery)
    put_up_signs(signs, scenery)
    for block in city_blocks():
        fill_block(block, scenery)
    belt(scenery)
    line_streets(network, scenery)
    line_highway(scenery)
    open_land(scenery)
    surfaces = in_painters_order([*network_surfaces(network), *scenery.surfaces])
    return Town(TOWN_NAME, surfaces, scenery.objects), network


def spawn_points(network: RoadNetwork) -> list[Pose]:
    """All spawn points, mixed so that the first ones already lie in both parts of the map."""
    places: list[Pose] = []
    for lane in network.lanes:
        if lane.junction is None:
            spacing = HIGHWAY_SPACING if lane.kind is RoadKind.HIGHWAY else CITY_SPACING
            for s in np.arange(FROM_ENDS, lane.length - FROM_ENDS, spacing):
                x, y, yaw, _ = lane.centre.sample(np.array([s]))[0]
                places.append(Pose(float(x), float(y), SPAWN_HEIGHT, yaw=float(degrees(yaw))))
    order = np.random.default_rng(16).permutation(len(places))
    return [places[number] for number in order]
