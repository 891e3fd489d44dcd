"""Leaving a server as it was found: no actor of ours, the old settings, the old weather.

Everything the fleet spawns carries a role name with a common prefix, so that a later fleet also finds what a
killed one left behind.
"""

import logging
from collections.abc import Iterable
from typing import Any

ROLE = "fedagem"

logger = logging.getLogger(__name__)


def mark(blueprint: Any, name: str) -> None:
    """Write our name on whatever is spawned from this blueprint."""
    if blueprint.has_attribute("role_name"):
        blueprint.set_attribute("role_name", f"{ROLE}:{name}")


def all_actors(world: Any) -> list[Any]:
    """Every actor of a world that this client has just joined.

    Actors are known from the last state the server sent, and a synchronous server sends one only with a tick.
    """
    if world.get_settings().synchronous_mode:
        world.tick()
    return list(world.get_actors())


def leftovers(actors: list[Any]) -> list[Any]:
    """Those of the actors that an earlier fleet left behind, with all that is attached to them."""
    ours = {actor.id for actor in actors if actor.attributes.get("role_name", "").startswith(f"{ROLE}:")}
    return [actor for actor in actors if actor.id in ours or (actor.parent and actor.parent.id in ours)]


def destroy(client: Any, actors: Iterable[Any]) -> None:
    """Destroy sensors first, then walkers' controllers, then what they were attached to."""
    import carla

    actors = list(actors)
    stages = (
        [actor for actor in actors if actor.type_id.startswith("sensor.")],
        [actor for actor in actors if actor.type_id.startswith("controller.")],
        [actor for actor in actors if not actor.type_id.startswith(("sensor.", "controller."))],
    )
    for controller in stages[1]:
        controller.stop()
    for stage in stages:
        if stage:
            client.apply_batch_sync([carla.command.DestroyActor(actor.id) for actor in stage], False)


class ServerState:
    """What a fleet changes on a server, as it was before.

    Where an earlier fleet was killed, its actors are destroyed first, and the synchronous mode that it left
    counts as its own and is not restored: a synchronous server without a client that ticks stands still.
    """

    def __init__(self, client: Any, world: Any, *, after_kill: bool = False) -> None:
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
