"""Background traffic: other vehicles, seeded, on the roads of the regions they belong to."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carla_bridge.cleanup import mark
from carla_bridge.config import TrafficConfig
from carla_bridge.errors import ConfigError
from carla_bridge.regions import RegionMap

TWO_WHEELERS = ("bicycle", "motorcycle")
CLEARANCE = 8.0
"""Metres to the next vehicle for a place to count as free."""

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


def spawn_traffic(
    client: Any, garage: Garage, wanted: Mapping[str, TrafficConfig], places: "Places", manager_port: int
) -> list[int]:
    """Put all background vehicles on the road in one batch, on autopilot; returns their ids."""
    import carla

    spawn, autopilot, future = carla.command.SpawnActor, carla.command.SetAutopilot, carla.command.FutureActor
    batch = []
    for region, traffic in wanted.items():
        kinds = [garage.vehicle] * traffic.vehicles + [garage.two_wheeler] * traffic.two_wheelers
        indices = places.unused(region)[: len(kinds)]
        if len(indices) < len(kinds):
            logger.warning(
                "the region %s has room for %d of its %d background vehicles", region, len(indices), len(kinds)
            )
        for kind, index in zip(kinds, indices, strict=False):
            blueprint = kind()
            mark(blueprint, "traffic")
            command = spawn(blueprint, places.use(index))
            batch.append(command.then(autopilot(future, True, manager_port)))
    if not batch:
        return []
    answers = client.apply_batch_sync(batch, False)
    failed = [answer.error for answer in answers if answer.has_error()]
    if failed:
        logger.warning("%d background vehicles could not be placed (%s)", len(failed), failed[0])
    return [answer.actor_id for answer in answers if not answer.has_error()]


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
        points = self._regions.spawn_points
        indices = self._regions.spawn_indices(region)
        order = [indices[number] for number in self._rng.permutation(len(indices))]

        def clearance(index: int) -> float:
            return min((points[index].location.distance(place) for place in occupied), default=np.inf)

        for index in order:
            if clearance(index) >= CLEARANCE:
                return points[index]
        return points[max(order, key=clearance)]


def _base_type(blueprint: Any) -> str:
    return str(blueprint.get_attribute("base_type").as_str()) if blueprint.has_attribute("base_type") else ""


def _is_two_wheeler(blueprint: Any) -> bool:
    if _base_type(blueprint) in TWO_WHEELERS:
        return True
    wheels = blueprint.get_attribute("number_of_wheels") if blueprint.has_attribute("number_of_wheels") else 4
    return int(wheels) == 2
