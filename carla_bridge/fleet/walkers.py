"""Pedestrians: CARLA's navigation moves them if the server has a mesh for it; otherwise they follow the pavements.

The fleet steers pavement walkers twice per simulated second, all in one batch; they follow the sidewalk lanes of the
map and turn round at their ends.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import carla
import numpy as np

from carla_bridge.config.parts import TrafficSettings
from carla_bridge.fleet.cleanup import mark
from carla_bridge.fleet.regions import RegionMap

STRIDE = 4.0
"""A pavement walker heads for a point so many metres ahead."""
REACHED = 1.5
NEAR_ROAD = 30.0
TRIES = 20
DROP = 1.0
"""A walker appears so many metres above the pavement, so that it does not get stuck in the ground."""

logger = logging.getLogger(__name__)


@dataclass
class _PavementWalker:
    """A walker on a pavement: the point it heads for, and its direction along the lane."""

    actor: carla.Actor
    target: carla.Waypoint
    forward: bool
    speed: float


class Walkers:
    """All pedestrians of the fleet. They are placed in one batch, and start to walk after the next tick."""

    def __init__(self, client: carla.Client, world: carla.World, regions: RegionMap, rng: np.random.Generator) -> None:
        self._client = client
        self._world = world
        self._regions = regions
        self._rng = rng
        self._map = world.get_map()
        self._by_mesh = False
        self._starts: list[carla.Waypoint | None] = []
        self._on_pavements: list[_PavementWalker] = []
        self.spawned: list[int] = []
        self.controllers: list[int] = []

    def place(self, wanted: Mapping[str, TrafficSettings]) -> None:
        """Put the plan's walkers near the roads of their regions."""
        if not any(traffic.walkers for traffic in wanted.values()):
            return
        self._by_mesh = self._world.get_random_location_from_navigation() is not None
        library = self._world.get_blueprint_library()
        blueprints = sorted(library.filter("walker.pedestrian.*"), key=lambda blueprint: str(blueprint.id))
        for region, traffic in wanted.items():
            placed = self._place(region, traffic.walkers, blueprints)
            if placed < traffic.walkers:
                logger.warning("the region %s took %d of its %d walkers", region, placed, traffic.walkers)

    def begin(self) -> None:
        """Let them walk, after the tick with which the world has come to know them."""
        if self._by_mesh:
            self._begin_by_mesh()
            return
        actors = {actor.id: actor for actor in cast(Iterable[carla.Actor], self._world.get_actors(self.spawned))}
        for number, start in zip(self.spawned, self._starts, strict=True):
            if number in actors and start is not None:
                forward, speed = bool(self._rng.integers(2)), float(self._rng.uniform(0.9, 1.8))
                self._on_pavements.append(_PavementWalker(actors[number], start, forward, speed))

    def steer(self) -> None:
        """Direct every pavement walker to its next point."""
        commands = []
        for walker in self._on_pavements:
            here = walker.actor.get_location()
            if here.distance_2d(walker.target.transform.location) < REACHED:
                _choose_next_target(walker)
            there = walker.target.transform.location
            direction = carla.Vector3D(there.x - here.x, there.y - here.y, 0.0)
            if direction.length() > 0:
                # Any: the stubs ask for the control of a vehicle here.
                control: Any = carla.WalkerControl(direction.make_unit_vector(), walker.speed, False)
                commands.append(carla.command.ApplyWalkerControl(walker.actor.id, control))
        if commands:
            self._client.apply_batch(commands)

    def _place(self, region: str, count: int, blueprints: list[carla.ActorBlueprint]) -> int:
        indices = self._regions.spawn_indices(region) if count else []
        batch, starts = [], []
        for _ in range(count):
            start = None if self._by_mesh else self._on_pavement(indices)
            transform = self._by_navigation(indices) if start is None else start.transform
            if transform is None:
                continue
            blueprint = blueprints[int(self._rng.integers(len(blueprints)))]
            mark(blueprint, "walker")
            if blueprint.has_attribute("is_invincible"):
                blueprint.set_attribute("is_invincible", "false")
            above = carla.Location(transform.location.x, transform.location.y, transform.location.z + DROP)
            batch.append(carla.command.SpawnActor(blueprint, carla.Transform(above, transform.rotation)))
            starts.append(start)
        answers = self._client.apply_batch_sync(batch, False) if batch else []
        done = [(answer.actor_id, start) for answer, start in zip(answers, starts, strict=True) if not answer.error]
        self.spawned += [number for number, _ in done]
        self._starts += [start for _, start in done]
        return len(done)

    def _on_pavement(self, indices: list[int]) -> carla.Waypoint | None:
        for _ in range(TRIES):
            point = self._regions.spawn_points[indices[int(self._rng.integers(len(indices)))]].location
            waypoint = self._map.get_waypoint(point, lane_type=carla.LaneType.Sidewalk)
            if waypoint is None or waypoint.transform.location.distance(point) > NEAR_ROAD:
                continue
            further = waypoint.next(float(self._rng.uniform(0.5, 25.0)))
            return further[0] if further else waypoint
        return None

    def _by_navigation(self, indices: list[int]) -> carla.Transform | None:
        if not self._by_mesh:
            return None
        points = [self._regions.spawn_points[index].location for index in indices]
        for _ in range(TRIES):
            location = self._world.get_random_location_from_navigation()
            if location is not None and min(point.distance(location) for point in points) < NEAR_ROAD:
                return carla.Transform(location)
        return None

    def _begin_by_mesh(self) -> None:
        blueprint = self._world.get_blueprint_library().find("controller.ai.walker")
        batch = [carla.command.SpawnActor(blueprint, carla.Transform(), number) for number in self.spawned]
        answers = self._client.apply_batch_sync(batch, True)
        self.controllers = [answer.actor_id for answer in answers if not answer.error]
        if refused := [answer.error for answer in answers if answer.error]:
            logger.warning("%d of %d walkers stand still: %s", len(refused), len(answers), refused[0])
        for controller in cast(Iterable[carla.WalkerAIController], self._world.get_actors(self.controllers)):
            controller.start()
            controller.go_to_location(self._world.get_random_location_from_navigation())
            controller.set_max_speed(float(self._rng.uniform(0.9, 1.8)))


def _choose_next_target(walker: _PavementWalker) -> None:
    for _ in range(2):
        ahead = walker.target.next(STRIDE) if walker.forward else walker.target.previous(STRIDE)
        if ahead:
            walker.target = ahead[0]
            return
        walker.forward = not walker.forward
