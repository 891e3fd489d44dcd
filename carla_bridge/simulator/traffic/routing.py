"""Ways through the lane graph: the shortest to a lane, or a random one."""

import heapq
from collections.abc import Sequence
from math import pi

import numpy as np

from carla_bridge.simulator.town.road_network import Lane, RoadKind

CHANGE_COST = 25.0
"""Metres of detour that a change of lane is worth."""
ROOM_TO_CHANGE = 50.0
"""A lane must be this long for a planned change of lane."""


def shortest(start: Lane, goal: Lane) -> list[Lane]:
    """Lanes from `start` to `goal`, both included; [start] if there is no way. Neighbours mean a lane change."""
    best = {start: 0.0}
    came_from: dict[Lane, Lane] = {}
    queue: list[tuple[float, int, Lane]] = [(0.0, start.index, start)]
    while queue:
        cost, _, lane = heapq.heappop(queue)
        if lane is goal:
            break
        if cost > best[lane]:
            continue
        onward = [(following, lane.length) for following in lane.successors]
        if lane.length >= ROOM_TO_CHANGE and lane.junction is None:
            onward += [(beside, CHANGE_COST) for beside in (lane.left, lane.right) if beside is not None]
        for following, price in onward:
            if cost + price < best.get(following, float("inf")):
                best[following] = cost + price
                came_from[following] = lane
                heapq.heappush(queue, (cost + price, following.index, following))
    if goal not in came_from:
        return [start]
    way = [goal]
    while way[-1] is not start:
        way.append(came_from[way[-1]])
    return way[::-1]


def direction(turn: Lane) -> str:
    """'Left', 'Right' or 'Straight' for a way through a junction."""
    change = (turn.centre.end[2] - turn.centre.yaw + pi) % (2 * pi) - pi
    if abs(change) < pi / 4 or not turn.predecessors:
        return "Straight"
    return "Right" if change > 0 else "Left"


def wander(lane: Lane, random: np.random.Generator, off_highway: bool) -> Lane:
    """A random successor; cyclists stay off the ramps if they can."""
    choices: Sequence[Lane] = lane.successors
    if off_highway:
        slow = [way for way in choices if all(out.kind is not RoadKind.RAMP for out in way.successors)]
        choices = slow or choices
    return choices[int(random.integers(len(choices)))]
