"""The map's roads: a city grid with one avenue, and a highway round the north of it that ends in the avenue.

Everything is at grade, because the ground is flat: the two carriageways of the highway run from the eastern
ramp to the western one. At either end the left lane turns back onto the other carriageway, and the other two
lead into the city, so no two lanes of the highway ever merge.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from math import pi

from carla_bridge.simulator.town.path import Path, Segment, connect
from carla_bridge.simulator.town.road_network import (
    Junction,
    LaneId,
    LaneSpec,
    LaneType,
    Road,
    RoadKind,
    RoadNetwork,
    Turn,
    build_network,
    driving_lanes,
)

COLUMNS = (-200.0, -112.0, -20.0, 78.0, 180.0)
"""x of the streets that run north to south."""
ROWS = (-176.0, -86.0, 0.0, 82.0, 170.0)
"""y of the streets that run west to east."""
AVENUE_ROW = 2
CITY_LANE = LaneSpec(LaneType.DRIVING, 3.5)
HIGHWAY_LANE = LaneSpec(LaneType.DRIVING, 3.75)
PARKING = LaneSpec(LaneType.PARKING, 2.2)
SIDEWALK = LaneSpec(LaneType.SIDEWALK, 3.0)
SHOULDER = LaneSpec(LaneType.SHOULDER, 2.5)
STREET_SIDE = (CITY_LANE, PARKING, SIDEWALK)
AVENUE_SIDE = (CITY_LANE, CITY_LANE, PARKING, SIDEWALK)
RAMP_SIDE = (CITY_LANE, CITY_LANE, SHOULDER)
HIGHWAY_SIDE = (HIGHWAY_LANE, HIGHWAY_LANE, HIGHWAY_LANE, SHOULDER)
CORNER = 7.3
"""Radius of the kerb at a street corner."""
MEDIAN = 16.0
"""Grass between the carriageways of the highway: wide enough to turn round in."""
RAMP_LENGTH = 110.0
FAN_LENGTH = 80.0
"""Length of the area in which the ramp's lanes fan out into the highway's."""
BEND_RADIUS = 200.0
SPEED_LIMITS = {
    RoadKind.STREET: 30.0,
    RoadKind.AVENUE: 50.0,
    RoadKind.RAMP: 60.0,
    RoadKind.HIGHWAY: 90.0,
    RoadKind.TURN: 30.0,
}


@dataclass(frozen=True)
class _Arm:
    """The end of a road at a junction."""

    road: Road
    at_start: bool

    def lanes(self, leaving: bool) -> list[tuple[LaneId, Path]]:
        """Lanes that leave (or reach) the junction on this arm, from the middle of the road outwards."""
        wanted = -1 if self.at_start == leaving else 1
        found = [(number, path) for number, _, path in driving_lanes(self.road) if number * wanted > 0]
        return [((self.road.id, number), path) for number, path in sorted(found, key=lambda f: abs(f[0]))]

    def heading(self, leaving: bool) -> float:
        yaw = self.road.reference.yaw if self.at_start else self.road.reference.end[2]
        return yaw if self.at_start == leaving else yaw + pi


def half_carriageway(kind: RoadKind) -> float:
    """From the middle of a city street to its kerb."""
    side = AVENUE_SIDE if kind is RoadKind.AVENUE else STREET_SIDE
    return sum(lane.width for lane in side if lane.type is not LaneType.SIDEWALK)


def row_kind(row: int) -> RoadKind:
    return RoadKind.AVENUE if row == AVENUE_ROW else RoadKind.STREET


def junction_reach(row: int) -> tuple[float, float]:
    """How far a city junction in this row reaches from its centre along x and along y."""
    return half_carriageway(RoadKind.STREET) + CORNER, half_carriageway(row_kind(row)) + CORNER


def highway_centre() -> Path:
    """The middle of the median, from the eastern end round the north to the western end."""
    reach, _ = junction_reach(AVENUE_ROW)
    east = COLUMNS[-1] + reach + RAMP_LENGTH + FAN_LENGTH
    west = COLUMNS[0] - reach - RAMP_LENGTH - FAN_LENGTH
    run_up, climb, quarter = Segment(120.0), Segment(100.0), Segment(BEND_RADIUS * pi / 2, -1 / BEND_RADIUS)
    across = Segment(east - west + 2 * run_up.length)
    pieces = (run_up, quarter, climb, quarter, across, quarter, climb, quarter, run_up)
    return Path(east, 0.0, 0.0, pieces)


def build_roads() -> RoadNetwork:
    """The road network; it is the same for every seed."""
    return _Builder().build()


class _Builder:
    def __init__(self) -> None:
        self._ids: Iterator[int] = count(1)
        self._roads: list[Road] = []
        self._junctions: list[Junction] = []
        self._nodes = {
            (column, row): 1000 + 10 * column + row for column in range(len(COLUMNS)) for row in range(len(ROWS))
        }
        self._east_end, self._west_end = 1100, 1101

    def build(self) -> RoadNetwork:
        self._city_streets()
        self._ramps()
        self._highway()
        between = list(self._roads)
        for (column, row), node in self._nodes.items():
            self._city_junction(node, COLUMNS[column], ROWS[row], _arms(between, node))
        for end in (self._east_end, self._west_end):
            self._highway_end(end, _arms(between, end))
        return build_network(self._roads, self._junctions)

    def _add_road(self, kind: RoadKind, name: str, path: Path, one_way: bool, start: int, end: int) -> None:
        side = {
            RoadKind.STREET: STREET_SIDE,
            RoadKind.AVENUE: AVENUE_SIDE,
            RoadKind.RAMP: RAMP_SIDE,
            RoadKind.HIGHWAY: HIGHWAY_SIDE,
        }[kind]
        left = () if one_way else side
        limit = SPEED_LIMITS[kind]
        self._roads.append(Road(next(self._ids), name, kind, path, left, side, limit, start, end))

    def _city_streets(self) -> None:
        for row, y in enumerate(ROWS):
            reach, _ = junction_reach(row)
            for column, (west, east) in enumerate(pairwise(COLUMNS)):
                path = Path(west + reach, y, 0.0, (Segment(east - west - 2 * reach),))
                start, end = self._nodes[column, row], self._nodes[column + 1, row]
                self._add_road(row_kind(row), f"Row {row + 1}", path, False, start, end)
        for column, x in enumerate(COLUMNS):
            for row, (north, south) in enumerate(pairwise(ROWS)):
                top, bottom = junction_reach(row)[1], junction_reach(row + 1)[1]
                path = Path(x, north + top, pi / 2, (Segment(south - north - top - bottom),))
                start, end = self._nodes[column, row], self._nodes[column, row + 1]
                self._add_road(RoadKind.STREET, f"Column {column + 1}", path, False, start, end)

    def _ramps(self) -> None:
        reach, _ = junction_reach(AVENUE_ROW)
        last = len(COLUMNS) - 1
        straight = (Segment(RAMP_LENGTH),)
        east = Path(COLUMNS[-1] + reach, 0.0, 0.0, straight)
        west = Path(COLUMNS[0] - reach - RAMP_LENGTH, 0.0, 0.0, straight)
        self._add_road(RoadKind.RAMP, "East ramp", east, False, self._nodes[last, AVENUE_ROW], self._east_end)
        self._add_road(RoadKind.RAMP, "West ramp", west, False, self._west_end, self._nodes[0, AVENUE_ROW])

    def _highway(self) -> None:
        centre = highway_centre()
        outward = centre.offset(MEDIAN / 2)
        homeward = centre.reversed().offset(MEDIAN / 2)
        self._add_road(RoadKind.HIGHWAY, "Ring west", outward, True, self._east_end, self._west_end)
        self._add_road(RoadKind.HIGHWAY, "Ring east", homeward, True, self._west_end, self._east_end)

    def _city_junction(self, junction: int, x: float, y: float, arms: list[_Arm]) -> None:
        turns: list[Turn] = []
        for come in arms:
            for go in arms:
                if come is go:
                    continue
                quarter = round((go.heading(leaving=True) - come.heading(leaving=False)) / (pi / 2)) % 4
                entering, leaving = come.lanes(leaving=False), go.lanes(leaving=True)
                pairs = {
                    0: zip(entering, leaving, strict=True) if quarter == 0 else (),
                    1: ((entering[-1], leaving[-1]),),
                    3: ((entering[0], leaving[0]),),
                }[quarter]
                turns += [self._turn(junction, a, b, CITY_LANE, RoadKind.TURN) for a, b in pairs]
        self._finish_junction(junction, x, y, arms, turns, has_lights=len(arms) > 2)

    def _highway_end(self, junction: int, arms: list[_Arm]) -> None:
        ramp = next(arm for arm in arms if arm.road.kind is RoadKind.RAMP)
        onto = next(arm for arm in arms if arm.road.kind is RoadKind.HIGHWAY and arm.at_start)
        off = next(arm for arm in arms if arm.road.kind is RoadKind.HIGHWAY and not arm.at_start)
        joining, leaving = onto.lanes(leaving=True), off.lanes(leaving=False)
        pairs = [(leaving[0], joining[0], RoadKind.TURN)]
        pairs += [(a, b, RoadKind.RAMP) for a, b in zip(ramp.lanes(False), joining[1:], strict=True)]
        pairs += [(a, b, RoadKind.RAMP) for a, b in zip(leaving[1:], ramp.lanes(True), strict=True)]
        turns = [self._turn(junction, a, b, HIGHWAY_LANE, kind) for a, b, kind in pairs]
        x = (joining[0][1].x + (ramp.road.reference.x if ramp.at_start else ramp.road.reference.end[0])) / 2
        self._finish_junction(junction, x, 0.0, arms, turns, has_lights=False)

    def _turn(
        self, junction: int, come: tuple[LaneId, Path], go: tuple[LaneId, Path], lane: LaneSpec, kind: RoadKind
    ) -> Turn:
        (incoming, before), (outgoing, after) = come, go
        centre = connect(before.end, (after.x, after.y, after.yaw))
        reference = centre.offset(-lane.width / 2)
        limit = SPEED_LIMITS[kind]
        road = next(self._ids)
        self._roads.append(
            Road(road, f"Turn {road}", RoadKind.TURN, reference, (), (lane,), limit, junction, junction, junction)
        )
        return Turn(incoming, (road, -1), outgoing)

    def _finish_junction(
        self, junction: int, x: float, y: float, arms: list[_Arm], turns: list[Turn], has_lights: bool
    ) -> None:
        roads = tuple(arm.road.id for arm in arms)
        self._junctions.append(Junction(junction, x, y, roads, tuple(turns), has_lights))


def _arms(roads: list[Road], junction: int) -> list[_Arm]:
    starting = [_Arm(road, True) for road in roads if road.start_junction == junction]
    ending = [_Arm(road, False) for road in roads if road.end_junction == junction]
    return starting + ending
