"""One autopilot: its position on its route, its next lanes, and its settings."""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from math import cos, pi, sin

import numpy as np

from carla_bridge.simulator.actors.actor import Vehicle
from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.town.road_network import LANE_SPACING, Lane, RoadNetwork
from carla_bridge.simulator.traffic.routing import direction, shortest, wander

HORIZON = 100.0
"""Metres of road that a driver looks ahead."""
WINDOW = 260.0
"""Metres of route that are laid out at a time."""
COMFORT_TURN = 2.4
"""Lateral acceleration in m/s² that drivers plan with."""
REARWARD = 12
"""Samples of the route that are kept behind the vehicle."""
LOST = 8.0
"""Farther from its lane than this, a driver looks for the nearest lane again."""


@dataclass
class DriverSettings:
    """What the traffic manager's clients can set; None means the manager's general value."""

    speed_difference: float | None = None
    desired_speed: float | None = None
    lane_offset: float | None = None
    distance: float | None = None
    ignore_lights: float = 0.0
    ignore_vehicles: float = 0.0
    ignore_walkers: float = 0.0
    changes_lanes: bool = True
    random_left: float = 0.0
    random_right: float = 0.0
    keeps_right: float = 0.0
    switches_lights: bool = False
    not_avoided: set[int] = field(default_factory=set)
    forced_change: bool | None = None
    """A lane change that a client asked for: True for left, False for right."""
    path: list[Lane] = field(default_factory=list)
    """Lanes to visit, given before there was a driver."""
    turns: list[str] = field(default_factory=list)
    """Turns to take, given before there was a driver."""


class Driver:
    """Drives one vehicle along the lanes."""

    def __init__(
        self, vehicle: Vehicle, network: RoadNetwork, random: np.random.Generator, settings: DriverSettings, number: int
    ) -> None:
        self.vehicle = vehicle
        self.random = random
        self.number = number
        self.settings = settings
        self.speed_factor = float(random.uniform(0.93, 1.05))
        """The driver's own share of the speed limit."""
        self.goals: deque[Lane] = deque(settings.path)
        """Lanes still to be reached; the first `_planned` of them are part of the route."""
        self._planned = 0
        self.turns: deque[str] = deque(settings.turns)
        self._network = network
        self._to_rear_axle = vehicle.model.wheelbase / 2
        self.aside = 0.0
        """Metres to the right of the lane's centre."""
        self.heading = 0.0
        """The lane's heading at the vehicle, in radians."""
        self.base = 0
        """The row of `points` from which the search for the rear axle begins."""
        self._end = 0.0
        self._shift = (0.0, 0.0, 1.0)
        """Lateral offset at the beginning of a lane change, where it began along the lane, and its length."""
        self.find_lane()

    @property
    def changing(self) -> bool:
        return self._shift[0] != 0.0

    def find_lane(self) -> None:
        """Start over from the vehicle's present position."""
        pose = self.vehicle.pose
        lane, self.s, _ = self._network.nearest(pose.x, pose.y, pose.yaw * pi / 180.0)
        self.route: list[Lane] = [lane]
        self._behind: Lane | None = None
        self._shift = (0.0, 0.0, 1.0)
        self._planned = 0
        self._enter()
        self._plan()
        self._lay_out()

    def follow(self, goals: list[Lane]) -> None:
        """Go to these lanes in turn, then wander."""
        self.goals = deque(goals)
        self._enter()
        self.turns.clear()
        self._replan()

    def take_turns(self, turns: list[str]) -> None:
        """Take these turns ('Left', 'Right', 'Straight') at the next junctions, then wander."""
        self.turns = deque(turns)
        self.goals.clear()
        self._replan()

    def arrive(self, base: int, s: float, aside: float, heading: float) -> None:
        """Move on along the route, to `s` metres after the beginning of the present lane."""
        self.base, self.s, self.aside, self.heading = base, s, aside, heading
        moved_on = False
        while self.s > self.lane.length and len(self.route) > 1:
            self.s -= self.lane.length
            self._behind = self.route.pop(0)
            moved_on = True
            self._shift = (0.0, 0.0, 1.0)
            self._enter()
        start, began, length = self._shift
        if start and self.s > began + length:
            self._shift = (0.0, 0.0, 1.0)
        if moved_on or (self.s + HORIZON > self._end and not self._cut_short):
            self._plan()
            self._lay_out()

    def look_ahead(self, lead: float) -> tuple[int, float, float]:
        """The first row of the route ahead of the vehicle, the distance to it, and the curvature `lead` metres ahead.

        The curvature's distance counts from the rear axle.
        """
        arc, s = self._arc, self.s
        last = len(arc) - 1
        first = min(bisect_left(arc, s), last)
        bend = min(bisect_left(arc, s - self._to_rear_axle + lead), last)
        return first, arc[first] - s, self._bends[bend]

    def lateral_shift(self, distance: Floats) -> Floats:
        """During a lane change: the remaining offset to the right at these distances ahead."""
        start, began, length = self._shift
        share = np.clip((self.s + distance - began) / length, 0.0, 1.0)
        left: Floats = start * (1.0 - share * share * (3.0 - 2.0 * share))
        return left

    def change_to(self, lane: Lane) -> None:
        """Move smoothly to a neighbouring lane."""
        x, y = self.vehicle.pose.x, self.vehicle.pose.y
        gap = (lane.samples[:, 0] - x) ** 2 + (lane.samples[:, 1] - y) ** 2
        nearest = int(gap.argmin())
        px, py, yaw, _ = lane.samples[nearest].tolist()
        aside = -(x - px) * sin(yaw) + (y - py) * cos(yaw)
        self.s = min(nearest * LANE_SPACING + (x - px) * cos(yaw) + (y - py) * sin(yaw), lane.length)
        planned = len(self.route) > 1 and self.route[1] is lane
        self.route = self.route[1:] if planned else [lane]
        self._behind = None
        self._enter()
        self._shift = (aside or 1e-6, self.s, max(14.0, 2.4 * self.vehicle.speed))
        if not planned:
            self._replan()
        else:
            self._plan()
            self._lay_out()

    def neighbour_wanted(self) -> Lane | None:
        """The neighbouring lane that the planned route continues on, if it does."""
        if len(self.route) > 1 and self.route[1] in (self.lane.left, self.lane.right):
            return self.route[1]
        return None

    def give_up_change(self) -> None:
        """Abandon the planned lane change and plan another way from here."""
        while self.goals and self.goals[0] in (self.lane.left, self.lane.right):
            self.goals.popleft()
        self._replan()

    def _enter(self) -> None:
        """Make the first lane of the route the current one, and drop the goals that it reaches."""
        self.lane = self.route[0]
        while self.goals and self.goals[0] is self.lane:
            self.goals.popleft()
            self._planned = max(0, self._planned - 1)

    def _replan(self) -> None:
        self._planned = 0
        self.route = self.route[:2] if self.lane.junction is not None else self.route[:1]
        self._plan()
        self._lay_out()

    def _plan(self) -> None:
        """Extend the route until it is longer than the window."""
        for goal in list(self.goals)[self._planned :]:
            self.route += shortest(self.route[-1], goal)[1:]
            self._planned += 1
        cyclist = self.vehicle.model.base_type == "bicycle"
        length = sum(lane.length for lane in self.route) - self.s
        while length < WINDOW + 20.0:
            following = self._requested_turn(self.route[-1]) or wander(self.route[-1], self.random, cyclist)
            self.route.append(following)
            length += following.length

    def _requested_turn(self, lane: Lane) -> Lane | None:
        if lane.junction is not None or not self.turns:
            return None
        wanted = self.turns.popleft()
        return next((way for way in lane.successors if direction(way) == wanted), None)

    def _lay_out(self) -> None:
        """Sample the next stretch of the route, up to the first lane change it contains.

        Columns are x, y, yaw, curvature, speed limit, comfortable speed in the bend, and metres along the lane.
        """
        pieces = []
        self._cut_short = False
        behind = [] if self._behind is None else [self._behind]
        start = -sum(lane.length for lane in behind)
        for number, lane in enumerate([*behind, *self.route], start=-len(behind)):
            samples = lane.samples[: int(np.ceil(lane.length / LANE_SPACING))]
            first = max(0, int((self.s - start) / LANE_SPACING) - REARWARD)
            piece = samples[first : first + int(WINDOW) + REARWARD]
            columns = np.empty((7, len(piece)))
            columns[:4] = piece.T
            columns[4] = lane.speed_limit / 3.6
            columns[5] = np.sqrt(COMFORT_TURN / np.maximum(np.abs(columns[3]), 1e-4))
            columns[6] = start + LANE_SPACING * np.arange(first, first + len(piece))
            pieces.append(columns)
            start += lane.length
            following = self.route[number + 1] if number + 1 < len(self.route) else None
            self._cut_short = number >= 0 and following is not None and following not in lane.successors
            if start > self.s + WINDOW or self._cut_short:
                break
        self.points = np.concatenate(pieces, axis=1)
        self.base = 0
        self.turn = self._next_turn()
        self._arc: list[float] = self.points[6].tolist()
        self._bends: list[float] = self.points[3].tolist()
        self._end = self._arc[-1]

    def _next_turn(self) -> Lane | None:
        """The way through the junction at the end of the present lane."""
        if self.lane.junction is None and len(self.route) > 1 and self.route[1].junction is not None:
            return self.route[1]
        return None
