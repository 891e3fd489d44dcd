"""The actors of a world by kind, so that a tick need not search all actors for the ones it needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from carla_bridge.simulator.actors.actor import Actor, Sensor, TrafficLight, Vehicle, Walker
from carla_bridge.simulator.actors.tables import MovingTable


@dataclass(frozen=True)
class ActorIndex:
    """The actors of a world by kind, in order of spawning; rebuilt whenever an actor is added or removed."""

    vehicles: list[Vehicle]
    walkers: list[Walker]
    movers: list[Vehicle | Walker]
    """Vehicles and walkers together."""
    lights: list[TrafficLight]
    sensors: list[Sensor]
    attached: list[Actor]
    """Actors that have a parent."""

    @classmethod
    def of(cls, actors: Iterable[Actor]) -> "ActorIndex":
        found = list(actors)
        return cls(
            [actor for actor in found if isinstance(actor, Vehicle)],
            [actor for actor in found if isinstance(actor, Walker)],
            [actor for actor in found if isinstance(actor, Vehicle | Walker)],
            [actor for actor in found if isinstance(actor, TrafficLight)],
            [actor for actor in found if isinstance(actor, Sensor)],
            [actor for actor in found if actor.parent is not None],
        )

    @cached_property
    def moving_table(self) -> MovingTable:
        """The renderer's table of the movers."""
        return MovingTable(self.movers)
