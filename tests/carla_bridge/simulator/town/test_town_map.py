"""The map: connected lanes, free roads and spawn points, unique ids, and what the seed changes."""

from math import cos, hypot, radians, sin

import numpy as np
import pytest

from carla_bridge.simulator.catalogue.semantics import FIRST_STATIC_ID, next_actor_id
from carla_bridge.simulator.town.build import build_town, spawn_points
from carla_bridge.simulator.town.road_layout import build_roads
from carla_bridge.simulator.town.road_network import LaneType, RoadKind
from tests.support.world_tools import new_world


@pytest.fixture(scope="module")
def town():
    return build_town(0)


def test_every_lane_leads_somewhere_and_from_anywhere_to_anywhere():
    network = build_roads()
    for lane in network.lanes:
        for following in lane.successors:
            x, y, yaw = lane.centre.end
            assert hypot(x - following.centre.x, y - following.centre.y) < 1e-6
            assert cos(yaw - following.centre.yaw) == pytest.approx(1.0)
    for forward in (True, False):
        seen, todo = {network.lanes[0]}, [network.lanes[0]]
        while todo:
            lane = todo.pop()
            onward = lane.successors if forward else lane.predecessors
            beside = [other for other in (lane.left, lane.right) if other is not None]
            new = [other for other in (*onward, *beside) if other not in seen]
            seen.update(new)
            todo += new
        assert len(seen) == len(network.lanes)


def test_nothing_of_the_map_stands_on_a_lane(town):
    scene, network = town
    points = np.concatenate([lane.samples[:, :2] for lane in network.lanes])
    for thing in scene.objects:
        if thing.pose.z > 2.0 or thing.kind in ("gantry", "lamp", "traffic_light_pole"):
            continue
        trunk = thing.kind in ("tree", "conifer")
        half = (0.3, 0.3) if trunk else (thing.size[0] / 2, thing.size[1] / 2)
        yaw = radians(thing.pose.yaw)
        dx, dy = points[:, 0] - thing.pose.x, points[:, 1] - thing.pose.y
        ahead, aside = np.abs(dx * cos(yaw) + dy * sin(yaw)), np.abs(-dx * sin(yaw) + dy * cos(yaw))
        assert not np.any((ahead < half[0] + 1.4) & (aside < half[1] + 1.4)), thing


def test_instance_ids_of_map_and_actors_never_meet(town):
    scene, _ = town
    ids = [thing.object_id for thing in scene.objects if thing.object_id and thing.kind != "traffic_light"]
    assert len(ids) == len(set(ids))
    assert min(ids) >= FIRST_STATIC_ID
    assert max(ids) < 0x10000
    number, seen = 0, []
    for _ in range(200_000):
        number = next_actor_id(number)
        seen.append(number)
    low = np.array(seen) % 0x10000
    assert low.min() > 0
    assert low.max() < FIRST_STATIC_ID
    assert np.all(np.diff(seen) > 0)


def test_spawn_points_are_free_and_in_both_parts(town):
    _, network = town
    world = new_world(town)
    kinds = set()
    for place in spawn_points(network)[:250]:
        lane, _, aside = network.nearest(place.x, place.y, radians(place.yaw))
        kinds.add(lane.kind)
        assert aside < 0.2
        world.destroy(world.spawn("vehicle.mitsubishi.fusorosa", [], place, None).id)
    assert {RoadKind.STREET, RoadKind.AVENUE, RoadKind.HIGHWAY} <= kinds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_change_the_houses_and_not_the_roads(town, seed):
    scene, network = build_town(seed)
    assert scene.objects != town[0].objects
    assert [road.reference for road in network.roads.values()] == [r.reference for r in town[1].roads.values()]
    assert build_town(seed)[0].objects == scene.objects
    assert all(
        lane.width > 0 for road in network.roads.values() for lane in road.right if lane.type is LaneType.DRIVING
    )
