"""The map: its roads and everything that is seen of it, from one seed."""

import numpy as np

from carla_bridge.simulator.catalogue.semantics import FIRST_STATIC_ID
from carla_bridge.simulator.scene import Town
from carla_bridge.simulator.town.block_scenery import belt, fill_block
from carla_bridge.simulator.town.blocks import city_blocks
from carla_bridge.simulator.town.highway import line_highway, open_land
from carla_bridge.simulator.town.layout import build_roads
from carla_bridge.simulator.town.road_network import RoadNetwork
from carla_bridge.simulator.town.road_signals import speed_signs, traffic_lights
from carla_bridge.simulator.town.scenery import Scenery
from carla_bridge.simulator.town.streets import line_streets, put_up_lights, put_up_signs
from carla_bridge.simulator.town.surfaces import in_painters_order, network_surfaces

TOWN_NAME = "Carla/Maps/GridRing01"


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
