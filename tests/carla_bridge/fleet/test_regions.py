"""Speed limits and lane counts of a map that is written here."""

from typing import Any

import pytest

from carla_bridge.config.parts import RegionRule
from carla_bridge.errors import ConfigError
from carla_bridge.fleet.regions import RegionMap, lanes_abreast, speed_limits

ROAD = """
<road name="r{id}" length="400" id="{id}" junction="-1">
  <type s="0" type="town"><speed max="{speed}" unit="{unit}"/></type>
  <planView><geometry s="0" x="0" y="{y}" hdg="0" length="400"><line/></geometry></planView>
  <lanes><laneSection s="0">
    <left>{left}</left>
    <center><lane id="0" type="none" level="false"/></center>
    <right>{right}</right>
  </laneSection></lanes>
</road>"""
LANE = '<lane id="{}" type="{}" level="false"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>'


def road(number, speed, unit, lanes, y):
    left = "".join(LANE.format(lane, "driving") for lane in range(lanes, 0, -1))
    right = "".join(LANE.format(-lane, "driving") for lane in range(1, lanes + 1))
    right += LANE.format(-lanes - 1, "sidewalk")
    return ROAD.format(id=number, speed=speed, unit=unit, y=y, left=left, right=right)


OPENDRIVE = (
    '<?xml version="1.0"?><OpenDRIVE><header revMajor="1" revMinor="4" name="two roads"/>'
    + road(1, 30, "mph", 1, 0)
    + road(2, 65, "mph", 4, 500)
    + road(3, 25, "m/s", 2, 1000)
    + "</OpenDRIVE>"
)


class OffLineMap:
    """A map as the client builds it from OpenDRIVE, with spawn points, which only a server knows."""

    def __init__(self):
        import carla

        self._map = carla.Map("TwoRoads", OPENDRIVE)
        self.name = "TwoRoads"
        self._points = [
            carla.Transform(carla.Location(x, -y + side))
            for y in (0, 500, 1000)
            for x in (50, 200)
            for side in (1.5, -1.5)
        ]

    def __getattr__(self, name):
        return getattr(self._map, name)

    def get_spawn_points(self):
        return self._points


def region_map(**rules):
    map_with_spawn_points: Any = OffLineMap()
    return RegionMap(map_with_spawn_points, rules)


def test_speed_limits_come_in_kilometres_per_hour():
    limits = speed_limits(OPENDRIVE)
    assert {road: round(speed) for road, speed in limits.items()} == {1: 48, 2: 105, 3: 90}


def test_rules_choose_spawn_points_by_speed_lanes_and_roads():
    regions = region_map(
        highway=RegionRule(min_speed=100),
        wide=RegionRule(min_lanes=2),
        narrow=RegionRule(max_lanes=1),
        third=RegionRule(roads=(3,)),
        both=RegionRule(min_speed=80, max_lanes=3),
        some=RegionRule(spawn_points=(9, 1)),
        nowhere=RegionRule(min_speed=200),
        beyond=RegionRule(spawn_points=(12,)),
    )
    assert regions.spawn_indices("highway") == [4, 5, 6, 7]
    assert regions.spawn_indices("wide") == [4, 5, 6, 7, 8, 9, 10, 11]
    assert regions.spawn_indices("narrow") == [0, 1, 2, 3]
    assert regions.spawn_indices("third") == regions.spawn_indices("both") == [8, 9, 10, 11]
    assert regions.spawn_indices("some") == [9, 1]
    assert regions.spawn_indices("a name without a rule") == list(range(12))
    with pytest.raises(
        ConfigError, match=r"nowhere fits none .* speed limits \[48, 90, 105\] km/h and \[1, 2, 4\] lanes"
    ):
        regions.spawn_indices("nowhere")
    with pytest.raises(ConfigError, match="names spawn point 12; TwoRoads has 0 to 11"):
        regions.spawn_indices("beyond")


def test_a_place_is_outside_only_where_a_rule_on_lanes_says_so():
    regions = region_map(highway=RegionRule(min_speed=100), points=RegionRule(spawn_points=(1,)))
    on_road_1, on_road_2 = (regions.spawn_points[number].location for number in (0, 4))
    assert regions.is_outside("highway", on_road_1)
    assert not regions.is_outside("highway", on_road_2)
    assert not regions.is_outside("points", on_road_1)
    assert not regions.is_outside("everywhere", on_road_1)


def test_lanes_are_counted_in_one_direction_only():
    regions = region_map()
    counts = [lanes_abreast(regions._waypoint(number)) for number in (0, 1, 4, 5, 8, 9)]
    assert counts == [1, 1, 4, 4, 2, 2]
