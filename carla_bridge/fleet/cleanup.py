"""Leaves a server as it was found: none of our actors, the old settings, the old weather.

Everything the fleet spawns has a role name with a common prefix, so that a later fleet also finds the actors of a
fleet that was killed.
"""

import logging
from collections.abc import Iterable
from typing import cast

import carla

ROLE = "fedagem"

logger = logging.getLogger(__name__)


def mark(blueprint: carla.ActorBlueprint, name: str) -> None:
    """Give whatever is spawned from this blueprint a role name with our prefix."""
    if blueprint.has_attribute("role_name"):
        blueprint.set_attribute("role_name", f"{ROLE}:{name}")


def all_actors(world: carla.World) -> list[carla.Actor]:
    """Every actor of a world that this client has just joined.

    A client knows the actors of the last state that the server sent, and a synchronous server sends one only with a
    tick.
    """
    if world.get_settings().synchronous_mode:
        world.tick()
    return list(world.get_actors())


def leftovers(actors: list[carla.Actor]) -> list[carla.Actor]:
    """The actors that an earlier fleet left, and everything attached to them."""
    ours = {actor.id for actor in actors if actor.attributes.get("role_name", "").startswith(f"{ROLE}:")}
    return [actor for actor in actors if actor.id in ours or (actor.parent and actor.parent.id in ours)]


def destroy(client: carla.Client, actors: Iterable[carla.Actor]) -> None:
    """Destroy sensors first, then walkers' controllers, then the actors they were attached to."""
    actors = list(actors)
    stages = (
        [actor for actor in actors if actor.type_id.startswith("sensor.")],
        [actor for actor in actors if actor.type_id.startswith("controller.")],
        [actor for actor in actors if not actor.type_id.startswith(("sensor.", "controller."))],
    )
    for controller in stages[1]:
        cast(carla.WalkerAIController, controller).stop()
    for stage in stages:
        if stage:
            client.apply_batch_sync([carla.command.DestroyActor(actor.id) for actor in stage], False)


class ServerState:
    """Remembers what a fleet changes on a server, and restores it.

    If an earlier fleet was killed, its actors are destroyed first, and the synchronous mode that it left is switched
    off instead of restored: a synchronous server stands still unless a client ticks it.
    """

    def __init__(self, client: carla.Client, world: carla.World, *, after_kill: bool = False) -> None:
        self._world = world
        self._settings = world.get_settings()
        self._weather = world.get_weather()
        old = leftovers(all_actors(world))
        if old:
            logger.warning("destroying %d actors that a killed fleet left behind", len(old))
            destroy(client, old)
        if old or after_kill:
            self._settings.synchronous_mode = False
            self._settings.fixed_delta_seconds = None

    def restore(self) -> None:
        self._world.set_weather(self._weather)
        self._world.apply_settings(self._settings)
