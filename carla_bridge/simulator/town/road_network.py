"""Roads, junctions and the graph of driving lanes that traffic, routing and OpenDRIVE share."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.town.path import Floats, Path

LaneId = tuple[int, int]
"""(road id, OpenDRIVE lane id): negative ids run along the road's reference line, positive ones against it."""

CELL = 12.0
"""Metres of a cell in which places are looked up."""
LANE_SPACING = 1.0
"""Metres between the samples of a lane's centre line."""
TIGHT_BEND = 20.0
"""Metres of the radius under which a bend is tight for a long vehicle."""


class RoadKind(Enum):
    """What sort of road; decides speed, markings and surroundings."""

    STREET = "street"
    AVENUE = "avenue"
    RAMP = "ramp"
    HIGHWAY = "highway"
    TURN = "turn"


class LaneType(Enum):
    """OpenDRIVE's names of the lane types in use."""

    DRIVING = "driving"
    PARKING = "parking"
    SIDEWALK = "sidewalk"
    SHOULDER = "shoulder"


@dataclass(frozen=True)
class LaneSpec:
    """One lane of a road's cross-section."""

    type: LaneType
    width: float


@dataclass(frozen=True)
class Road:
    """A road between two junctions, or one lane through a junction (kind TURN)."""

    id: int
    name: str
    kind: RoadKind
    reference: Path
    left: tuple[LaneSpec, ...]
    """Lanes 1, 2, ... from the reference line outwards."""
    right: tuple[LaneSpec, ...]
    """Lanes -1, -2, ... from the reference line outwards."""
    speed_limit: float
    """km/h."""
    start_junction: int
    end_junction: int
    junction: int | None = None
    """The junction this road leads through; None for a road between junctions."""

    def cross_section(self) -> Iterable[tuple[int, LaneSpec, float]]:
        """(lane id, lane, offset of its centre to the right of the reference line)."""
        for sign, lanes in ((-1, self.right), (1, self.left)):
            edge = 0.0
            for number, lane in enumerate(lanes, start=1):
                yield sign * number, lane, -sign * (edge + lane.width / 2)
                edge += lane.width

    def half_width(self, *types: LaneType) -> float:
        """Distance from the reference line to the outer edge of the right-hand lanes of the given types."""
        return sum(lane.width for lane in self.right if lane.type in types)


@dataclass(frozen=True)
class Turn:
    """A way through a junction: from one lane to another over a connecting road."""

    incoming: LaneId
    connecting: LaneId
    outgoing: LaneId


@dataclass(frozen=True)
class Junction:
    """A place where roads meet; if it has lights, one approach is green at a time."""

    id: int
    x: float
    y: float
    arms: tuple[int, ...]
    """Roads that begin or end here."""
    turns: tuple[Turn, ...]
    has_lights: bool


@dataclass(eq=False, repr=False)
class Lane:
    """A lane that is driven on, in driving direction."""

    id: LaneId
    index: int
    """Position in `RoadNetwork.lanes`."""
    kind: RoadKind
    centre: Path
    width: float
    speed_limit: float
    junction: int | None
    end_junction: int | None
    """The junction that the lane leads to; None inside a junction."""
    successors: list["Lane"] = field(default_factory=list)
    predecessors: list["Lane"] = field(default_factory=list)
    left: "Lane | None" = None
    right: "Lane | None" = None
    conflicts: list["Lane"] = field(default_factory=list)
    """Other ways through the same junction that cross or join this one."""

    def __repr__(self) -> str:
        return f"Lane{self.id}"

    @cached_property
    def length(self) -> float:
        return self.centre.length

    @cached_property
    def is_tight(self) -> bool:
        """Whether the nose of a long vehicle leaves the lane in this bend."""
        return bool(np.abs(self.samples[:, 3]).max() > 1 / TIGHT_BEND)

    @cached_property
    def samples(self) -> Floats:
        """(n, 4) rows of x, y, yaw, curvature every metre of the centre line."""
        return self.centre.sample(np.arange(0.0, self.length + LANE_SPACING, LANE_SPACING))


@dataclass(eq=False)
class RoadNetwork:
    """All roads and junctions, the driving lanes, and how to find the lane at a place."""

    roads: dict[int, Road]
    junctions: dict[int, Junction]
    lanes: list[Lane]
    by_id: dict[LaneId, Lane]

    @cached_property
    def _index(self) -> tuple[Floats, NDArray[np.int64], dict[tuple[int, int], NDArray[np.int64]]]:
        """All samples (x, y, yaw), (lane, position) of each, and which of them are in a cell."""
        points = np.concatenate([lane.samples[:, :3] for lane in self.lanes])
        owner = np.concatenate([np.full(len(lane.samples), lane.index) for lane in self.lanes])
        position = np.concatenate([np.arange(len(lane.samples)) for lane in self.lanes])
        cells, member = np.unique((points[:, :2] // CELL).astype(np.int64), axis=0, return_inverse=True)
        order = np.argsort(member, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(member.ravel()))[:-1])
        by_cell = {(column, row): group for (column, row), group in zip(cells.tolist(), groups, strict=True)}
        return points, np.column_stack((owner, position)), by_cell

    def nearest(self, x: float, y: float, yaw: float | None = None) -> tuple[Lane, float, float]:
        """The lane nearest to a place, the arc length there and the distance from its centre line.

        With `yaw` (radians) lanes that run the other way count as far away.
        """
        points, origin, cells = self._index
        column, row = int(x // CELL), int(y // CELL)
        around = [cells.get((column + i % 3 - 1, row + i // 3 - 1)) for i in range(9)]
        found = [group for group in around if group is not None]
        near = np.concatenate(found) if found else np.arange(len(points))
        gap = points[near]
        squared = (gap[:, 0] - x) ** 2 + (gap[:, 1] - y) ** 2
        if yaw is not None:
            squared += np.where(np.cos(gap[:, 2] - yaw) < 0.5, 100.0, 0.0)
        number, position = origin[near[int(squared.argmin())]].tolist()
        lane = self.lanes[number]
        along, aside = project(lane, x, y, position)
        return lane, along, abs(aside)


def project(lane: Lane, x: float, y: float, near: int) -> tuple[float, float]:
    """Arc length and signed offset to the right of a point, relative to sample `near` of the lane."""
    px, py, yaw, _ = lane.samples[near]
    dx, dy = x - px, y - py
    along = near * LANE_SPACING + dx * np.cos(yaw) + dy * np.sin(yaw)
    return float(min(max(along, 0.0), lane.length)), float(-dx * np.sin(yaw) + dy * np.cos(yaw))


def driving_lanes(road: Road) -> Iterable[tuple[int, LaneSpec, Path]]:
    """(lane id, lane, centre line in driving direction) of the driving lanes of a road."""
    for number, spec, offset in road.cross_section():
        if spec.type is LaneType.DRIVING:
            centre = road.reference.offset(offset)
            yield number, spec, centre if number < 0 else centre.reversed()


def build_network(roads: Sequence[Road], junctions: Sequence[Junction]) -> RoadNetwork:
    """Join roads and junctions into the lane graph."""
    lanes: list[Lane] = []
    by_id: dict[LaneId, Lane] = {}
    for road in roads:
        for number, spec, centre in driving_lanes(road):
            leads_to = road.end_junction if number < 0 else road.start_junction
            lane = Lane(
                (road.id, number),
                len(lanes),
                road.kind,
                centre,
                spec.width,
                road.speed_limit,
                road.junction,
                leads_to if road.junction is None else None,
            )
            lanes.append(lane)
            by_id[lane.id] = lane
    for lane in lanes:
        road_id, number = lane.id
        outward, inward = (number - 1, number + 1) if number < 0 else (number + 1, number - 1)
        lane.right = by_id.get((road_id, outward))
        lane.left = by_id.get((road_id, inward)) if inward else None
    for junction in junctions:
        for turn in junction.turns:
            chain = [by_id[turn.incoming], by_id[turn.connecting], by_id[turn.outgoing]]
            for here, there in itertools.pairwise(chain):
                here.successors.append(there)
                there.predecessors.append(here)
        _find_conflicts([(by_id[turn.connecting], turn.incoming) for turn in junction.turns])
    return RoadNetwork({road.id: road for road in roads}, {j.id: j for j in junctions}, lanes, by_id)


def _find_conflicts(ways: Sequence[tuple[Lane, LaneId]]) -> None:
    for number, (one, one_from) in enumerate(ways):
        for two, two_from in ways[number + 1 :]:
            if one_from == two_from:
                continue  # they share the approach: the vehicle behind follows the one in front
            gap = one.samples[:, None, :2] - two.samples[None, :, :2]
            if np.min(np.sum(gap**2, axis=2)) < 2.6**2:
                one.conflicts.append(two)
                two.conflicts.append(one)
