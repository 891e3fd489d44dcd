"""Background traffic: other vehicles, seeded, on the roads of the regions they belong to."""

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carla_bridge.config.section import TrafficConfig
from carla_bridge.errors import ConfigError
from carla_bridge.fleet.cleanup import mark
from carla_bridge.fleet.driving import Driver, Whereabouts
from carla_bridge.fleet.regions import RegionMap

TWO_WHEELERS = ("bicycle", "motorcycle")
CLEARANCE = 8.0
"""Metres to the next vehicle for a place to count as free."""
UNSEEN = 50.0
"""Metres from a camera at which a vehicle that appears is hardly noticed."""

logger = logging.getLogger(__name__)


class Garage:
    """Vehicle blueprints, sorted so that the same seed picks the same ones everywhere."""

    def __init__(self, library: Any, rng: np.random.Generator) -> None:
        self._rng = rng
        self._all = sorted(library.filter("vehicle.*"), key=lambda blueprint: str(blueprint.id))
        self._two_wheelers = [blueprint for blueprint in self._all if _is_two_wheeler(blueprint)]
        self._others = [blueprint for blueprint in self._all if not _is_two_wheeler(blueprint)]
        self._cars = [blueprint for blueprint in self._others if _base_type(blueprint) in ("car", "")]

    def car(self, wanted: str | None) -> Any:
        """A car to mount cameras on; by id where the plan names one."""
        if wanted is None:
            return self._dressed(self._cars or self._others)
        found = [blueprint for blueprint in self._all if blueprint.id == wanted]
        if not found:
            known = ", ".join(blueprint.id for blueprint in self._cars)
            raise ConfigError(f"carla.vehicles asks for the blueprint {wanted!r}; this server has {known}")
        return self._dressed(found)

    def vehicle(self) -> Any:
        return self._dressed(self._others)

    def two_wheeler(self) -> Any:
        if not self._two_wheelers:
            raise ConfigError("carla.traffic asks for two-wheelers; this server has none")
        return self._dressed(self._two_wheelers)

    def _dressed(self, blueprints: Sequence[Any]) -> Any:
        blueprint = blueprints[int(self._rng.integers(len(blueprints)))]
        if blueprint.has_attribute("color"):
            colours = blueprint.get_attribute("color").recommended_values
            if colours:
                blueprint.set_attribute("color", colours[int(self._rng.integers(len(colours)))])
        return blueprint


class Traffic:
    """All background vehicles, spawned in one batch and kept in their regions, so that density does not drift."""

    def __init__(
        self, client: Any, world: Any, places: "Places", regions: RegionMap, stuck_seconds: float, radius: float | None
    ) -> None:
        self._client = client
        self._world = world
        self._places = places
        self._regions = regions
        self._stuck_seconds = stuck_seconds
        self._radius = radius
        self._homes: dict[int, str] = {}
        self._vehicles: deque[tuple[Any, Whereabouts]] = deque()

    @property
    def spawned(self) -> list[int]:
        return list(self._homes)

    def place(self, garage: Garage, wanted: Mapping[str, TrafficConfig], manager_port: int) -> None:
        """Put the plan's vehicles on the road, on autopilot."""
        import carla

        spawn, autopilot = carla.command.SpawnActor, carla.command.SetAutopilot
        batch, homes = [], []
        for region, traffic in wanted.items():
            kinds = [garage.vehicle] * traffic.vehicles + [garage.two_wheeler] * traffic.two_wheelers
            indices = self._places.unused(region)[: len(kinds)] if kinds else []
            if len(indices) < len(kinds):
                logger.warning("the region %s takes %d of its %d vehicles", region, len(indices), len(kinds))
            for kind, index in zip(kinds, indices, strict=False):
                blueprint = kind()
                mark(blueprint, "traffic")
                command = spawn(blueprint, self._places.use(index))
                batch.append(command.then(autopilot(carla.command.FutureActor, True, manager_port)))
                homes.append(region)
        answers = self._client.apply_batch_sync(batch, False) if batch else []
        for answer, home in zip(answers, homes, strict=True):
            if answer.has_error():
                logger.warning("a background vehicle could not be placed in %s (%s)", home, answer.error)
            else:
                self._homes[answer.actor_id] = home

    def begin(self, time: float) -> None:
        """Every vehicle is known to the world by now."""
        for actor in self._world.get_actors(self.spawned):
            whereabouts = Whereabouts(self._homes[actor.id])
            whereabouts.arrive(actor.get_location(), time)
            self._vehicles.append((actor, whereabouts))

    def tend(self, time: float, share: float, fleet: Sequence[Driver]) -> None:
        """Look after a share of the vehicles, in turn; one that strayed, got stuck or is far off is put elsewhere."""
        for _ in range(math.ceil(min(share, 1.0) * len(self._vehicles))):
            self._vehicles.rotate(-1)
            actor, whereabouts = self._vehicles[0]
            here = actor.get_location()
            if whereabouts.trouble(here, self._regions, time, self._stuck_seconds):
                relocate(self._world, actor, whereabouts, self._places, time)
            elif self._radius is not None:
                watched = [driver.actor.get_location() for driver in fleet if driver.region == whereabouts.region]
                if watched and nearest(here, watched) > self._radius:
                    self._bring(actor, whereabouts, watched, self._radius, time)

    def _bring(self, actor: Any, whereabouts: Whereabouts, watched: Sequence[Any], radius: float, time: float) -> None:
        """Put a vehicle near one of the watched places, at its speed; without room there it stays where it is."""
        place = self._places.free_near(whereabouts.region, locations(self._world), watched, radius)
        if place is not None:
            put(actor, whereabouts, place, actor.get_velocity().length(), time)


def relocate(world: Any, actor: Any, whereabouts: Whereabouts, places: "Places", time: float) -> None:
    """Put a vehicle on a free spawn point of its region; autopilot drives on from there."""
    put(actor, whereabouts, places.free_now(whereabouts.region, locations(world)), 0.0, time)


def put(actor: Any, whereabouts: Whereabouts, place: Any, speed: float, time: float) -> None:
    """Put a vehicle on a place, at this speed along the road."""
    actor.set_transform(place)
    actor.set_target_velocity(place.get_forward_vector() * speed)
    whereabouts.arrive(place.location, time)


def locations(world: Any) -> list[Any]:
    """Where all vehicles are."""
    return [vehicle.get_location() for vehicle in world.get_actors().filter("vehicle.*")]


def nearest(place: Any, others: Sequence[Any]) -> float:
    """Metres to the nearest of the others."""
    return min((float(place.distance(other)) for other in others), default=math.inf)


class Places:
    """Hands out spawn points, each once while the fleet is set up, in seeded order."""

    def __init__(self, regions: RegionMap, rng: np.random.Generator) -> None:
        self._regions = regions
        self._rng = rng
        self._taken: set[int] = set()

    def unused(self, region: str) -> list[int]:
        indices = [index for index in self._regions.spawn_indices(region) if index not in self._taken]
        return [indices[number] for number in self._rng.permutation(len(indices))]

    def use(self, index: int) -> Any:
        self._taken.add(index)
        return self._regions.spawn_points[index]

    def free_now(self, region: str, occupied: Sequence[Any]) -> Any:
        """A spawn point away from all the given locations, or the one that is farthest from them."""
        places = self._shuffled(region)
        free = (place for place in places if nearest(place.location, occupied) >= CLEARANCE)
        return next(free, None) or max(places, key=lambda place: nearest(place.location, occupied))

    def free_near(self, region: str, occupied: Sequence[Any], watched: Sequence[Any], radius: float) -> Any | None:
        """A free spawn point within the radius of a watched place, and too far from all of them to be noticed."""
        for place in self._shuffled(region):
            if UNSEEN <= nearest(place.location, watched) <= radius and nearest(place.location, occupied) >= CLEARANCE:
                return place
        return None

    def _shuffled(self, region: str) -> list[Any]:
        indices = self._regions.spawn_indices(region)
        return [self._regions.spawn_points[indices[number]] for number in self._rng.permutation(len(indices))]


def _base_type(blueprint: Any) -> str:
    return str(blueprint.get_attribute("base_type").as_str()) if blueprint.has_attribute("base_type") else ""


def _is_two_wheeler(blueprint: Any) -> bool:
    if _base_type(blueprint) in TWO_WHEELERS:
        return True
    wheels = blueprint.get_attribute("number_of_wheels") if blueprint.has_attribute("number_of_wheels") else 4
    return int(wheels) == 2
