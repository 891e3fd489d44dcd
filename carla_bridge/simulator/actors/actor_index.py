"""Who is in the world, by kind, so that a tick need not look through all actors for those that it concerns."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from carla_bridge.simulator.actors.actor import Actor, Sensor, TrafficLight, Vehicle, Walker
from carla_bridge.simulator.actors.tables import MovingTable


@dataclass(frozen=True)
class ActorIndex:
    """The actors of a world, sorted; a new one is taken whenever somebody comes or goes.

    Everywhere the order is that of spawning.
    """

    vehicles: list[Vehicle]
    walkers: list[Walker]
    movers: list[Vehicle | Walker]
    """Vehicles and walkers together."""
    lights: list[TrafficLight]
    sensors: list[Sensor]
    attached: list[Actor]
    """What is attached to something else."""

    @classmethod
    def of(cls, actors: Iterable[Actor]) -> "ActorIndex":
        everybody = list(actors)
        return cls(
            [actor for actor in everybody if isinstance(actor, Vehicle)],
            [actor for actor in everybody if isinstance(actor, Walker)],
            [actor for actor in everybody if isinstance(actor, Vehicle | Walker)],
            [actor for actor in everybody if isinstance(actor, TrafficLight)],
            [actor for actor in everybody if isinstance(actor, Sensor)],
            [actor for actor in everybody if actor.parent is not None],
        )

    @cached_property
    def moving_table(self) -> MovingTable:
        """What the renderer gets to know of the movers."""
        return MovingTable(self.movers)
