"""Background traffic: seeded vehicles that stay on the roads of their regions."""

import logging
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import carla
import numpy as np

from carla_bridge.config.parts import TrafficSettings
from carla_bridge.errors import ConfigError
from carla_bridge.fleet.cleanup import mark
from carla_bridge.fleet.regions import RegionMap
from carla_bridge.fleet.vehicles import FleetVehicle, RegionWatch

TWO_WHEELERS = ("bicycle", "motorcycle")
CLEARANCE = 8.0
"""A spawn point is free if the next vehicle is at least so many metres away."""
UNSEEN = 50.0
"""A vehicle that appears so many metres from a camera is hardly noticed."""

logger = logging.getLogger(__name__)


class VehicleBlueprints:
    """Picks vehicle blueprints; they are sorted, so that the same seed picks the same ones everywhere."""

    def __init__(self, library: carla.BlueprintLibrary, rng: np.random.Generator) -> None:
        self._rng = rng
        self._all = sorted(library.filter("vehicle.*"), key=lambda blueprint: str(blueprint.id))
        self._two_wheelers = [blueprint for blueprint in self._all if _is_two_wheeler(blueprint)]
        self._others = [blueprint for blueprint in self._all if not _is_two_wheeler(blueprint)]
        self._cars = [blueprint for blueprint in self._others if _base_type(blueprint) in ("car", "")]

    def car(self, wanted: str | None) -> carla.ActorBlueprint:
        """A car to mount cameras on; by id if the plan names one."""
        if wanted is None:
            return self._coloured(self._cars or self._others)
        found = [blueprint for blueprint in self._all if blueprint.id == wanted]
        if not found:
            known = ", ".join(blueprint.id for blueprint in self._cars)
            raise ConfigError(f"carla.vehicles asks for the blueprint {wanted!r}; valid values: {known}")
        return self._coloured(found)

    def vehicle(self) -> carla.ActorBlueprint:
        return self._coloured(self._others)

    def two_wheeler(self) -> carla.ActorBlueprint:
        if not self._two_wheelers:
            raise ConfigError("carla.traffic asks for two-wheelers, but this server has none; set two_wheelers to 0")
        return self._coloured(self._two_wheelers)

    def _coloured(self, blueprints: Sequence[carla.ActorBlueprint]) -> carla.ActorBlueprint:
        blueprint = blueprints[int(self._rng.integers(len(blueprints)))]
        if blueprint.has_attribute("color"):
            colours = blueprint.get_attribute("color").recommended_values
            if colours:
                blueprint.set_attribute("color", colours[int(self._rng.integers(len(colours)))])
        return blueprint


class Traffic:
    """All background vehicles, spawned in one batch and kept in their regions, so that density does not drift."""

    def __init__(
        self,
        client: carla.Client,
        world: carla.World,
        places: "SpawnPoints",
        regions: RegionMap,
        stuck_seconds: float,
        radius: float | None,
    ) -> None:
        self._client = client
        self._world = world
        self._places = places
        self._regions = regions
        self._stuck_seconds = stuck_seconds
        self._radius = radius
        self._regions_by_id: dict[int, str] = {}
        self._vehicles: deque[tuple[carla.Vehicle, RegionWatch]] = deque()

    @property
    def spawned(self) -> list[int]:
        return list(self._regions_by_id)

    def place(self, blueprints: VehicleBlueprints, wanted: Mapping[str, TrafficSettings], manager_port: int) -> None:
        """Put the plan's vehicles on the road, on autopilot."""
        spawn, autopilot = carla.command.SpawnActor, carla.command.SetAutopilot
        future: Any = carla.command.FutureActor  # the stubs do not know that it stands for an actor
        batch, regions = [], []
        for region, traffic in wanted.items():
            kinds = [blueprints.vehicle] * traffic.vehicles + [blueprints.two_wheeler] * traffic.two_wheelers
            indices = self._places.unused(region)[: len(kinds)] if kinds else []
            if len(indices) < len(kinds):
                logger.warning("the region %s has room for %d of its %d vehicles", region, len(indices), len(kinds))
            for kind, index in zip(kinds, indices, strict=False):
                blueprint = kind()
                mark(blueprint, "traffic")
                command = spawn(blueprint, self._places.use(index))
                batch.append(command.then(autopilot(future, True, manager_port)))
                regions.append(region)
        answers = self._client.apply_batch_sync(batch, False) if batch else []
        for answer, region in zip(answers, regions, strict=True):
            if answer.has_error():
                logger.warning("a background vehicle could not be placed in %s (%s)", region, answer.error)
            else:
                self._regions_by_id[answer.actor_id] = region

    def begin(self, time: float) -> None:
        """Start watching the vehicles, after the tick with which the world has come to know them."""
        for actor in cast(Iterable[carla.Vehicle], self._world.get_actors(self.spawned)):
            watch = RegionWatch(self._regions_by_id[actor.id])
            watch.arrive(actor.get_location(), time)
            self._vehicles.append((actor, watch))

    def keep_in_place(self, time: float, share: float, fleet: Sequence[FleetVehicle]) -> None:
        """Check a share of the vehicles, in turn; move those that left their region, got stuck or are far away."""
        for _ in range(math.ceil(min(share, 1.0) * len(self._vehicles))):
            self._vehicles.rotate(-1)
            actor, watch = self._vehicles[0]
            here = actor.get_location()
            if watch.problem(here, self._regions, time, self._stuck_seconds):
                relocate(self._world, actor, watch, self._places, time)
            elif self._radius is not None:
                watched = [vehicle.actor.get_location() for vehicle in fleet if vehicle.region == watch.region]
                if watched and nearest(here, watched) > self._radius:
                    self._move_near(actor, watch, watched, self._radius, time)

    def _move_near(
        self,
        actor: carla.Vehicle,
        watch: RegionWatch,
        watched: Sequence[carla.Location],
        radius: float,
        time: float,
    ) -> None:
        """Put a vehicle near one of the watched places, at its speed; if no place there is free, leave it alone."""
        place = self._places.free_near(watch.region, locations(self._world), watched, radius)
        if place is not None:
            put(actor, watch, place, actor.get_velocity().length(), time)


def relocate(world: carla.World, actor: carla.Vehicle, watch: RegionWatch, places: "SpawnPoints", time: float) -> None:
    """Put a vehicle on a free spawn point of its region; autopilot drives on from there."""
    put(actor, watch, places.free_now(watch.region, locations(world)), 0.0, time)


def put(actor: carla.Vehicle, watch: RegionWatch, place: carla.Transform, speed: float, time: float) -> None:
    """Put a vehicle at a place, moving along the road at this speed."""
    actor.set_transform(place)
    actor.set_target_velocity(place.get_forward_vector() * speed)
    watch.arrive(place.location, time)


def locations(world: carla.World) -> list[carla.Location]:
    """The locations of all vehicles."""
    vehicles = cast(Iterable[carla.Vehicle], world.get_actors().filter("vehicle.*"))
    return [vehicle.get_location() for vehicle in vehicles]


def nearest(place: carla.Location, others: Sequence[carla.Location]) -> float:
    """Metres to the nearest of the others; infinite if there are none."""
    return min((float(place.distance(other)) for other in others), default=math.inf)


class SpawnPoints:
    """Hands out spawn points in seeded order; while the fleet is set up, each only once."""

    def __init__(self, regions: RegionMap, rng: np.random.Generator) -> None:
        self._regions = regions
        self._rng = rng
        self._taken: set[int] = set()

    def unused(self, region: str) -> list[int]:
        indices = [index for index in self._regions.spawn_indices(region) if index not in self._taken]
        return [indices[number] for number in self._rng.permutation(len(indices))]

    def use(self, index: int) -> carla.Transform:
        self._taken.add(index)
        return self._regions.spawn_points[index]

    def free_now(self, region: str, occupied: Sequence[carla.Location]) -> carla.Transform:
        """A spawn point away from all the given locations, or the one farthest from them if none is."""
        places = self._shuffled(region)
        free = (place for place in places if nearest(place.location, occupied) >= CLEARANCE)
        return next(free, None) or max(places, key=lambda place: nearest(place.location, occupied))

    def free_near(
        self, region: str, occupied: Sequence[carla.Location], watched: Sequence[carla.Location], radius: float
    ) -> carla.Transform | None:
        """A free spawn point within the radius of a watched place, and too far from all of them to be noticed."""
        for place in self._shuffled(region):
            if UNSEEN <= nearest(place.location, watched) <= radius and nearest(place.location, occupied) >= CLEARANCE:
                return place
        return None

    def _shuffled(self, region: str) -> list[carla.Transform]:
        indices = self._regions.spawn_indices(region)
        return [self._regions.spawn_points[indices[number]] for number in self._rng.permutation(len(indices))]


def _base_type(blueprint: carla.ActorBlueprint) -> str:
    return str(blueprint.get_attribute("base_type").as_str()) if blueprint.has_attribute("base_type") else ""


def _is_two_wheeler(blueprint: carla.ActorBlueprint) -> bool:
    if _base_type(blueprint) in TWO_WHEELERS:
        return True
    wheels = blueprint.get_attribute("number_of_wheels") if blueprint.has_attribute("number_of_wheels") else 4
    return int(wheels) == 2
