"""Batches: CARLA's 22 commands, each an index and its fields."""

import logging
from collections.abc import Sequence
from typing import Any

from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol import wire
from carla_bridge.simulator.protocol.actor_methods import RIGID, ActorMethods, spawn, steer_walker
from carla_bridge.simulator.world import World

SPAWN, DESTROY, WALKER_STATE, LIGHT_STATE, CONSOLE = 0, 1, 7, 18, 20
METHODS = {
    2: "apply_control_to_vehicle",
    3: "apply_ackermann_control_to_vehicle",
    4: "apply_control_to_walker",
    5: "apply_physics_control",
    6: "set_actor_transform",
    8: "set_actor_target_velocity",
    9: "set_actor_target_angular_velocity",
    10: "add_actor_impulse",
    11: "add_actor_force",
    12: "add_actor_angular_impulse",
    13: "add_actor_torque",
    14: "set_actor_simulate_physics",
    15: "set_actor_enable_gravity",
    16: "set_actor_autopilot",
    17: "show_vehicle_debug_telemetry",
    18: "set_vehicle_light_state",
    19: "set_actor_location",
    21: "set_traffic_light_state",
}
"""The RPC that does the same as a command."""
LARGEST_BATCH = 20_000
"""A quarter of a second's work. No tick runs during a batch, so no other client's call is answered meanwhile."""

log = logging.getLogger(__name__)


def run_batch(world: World, actors: ActorMethods, commands: Any) -> list[object]:
    """Run all commands in order; each gets its own answer, and a failed one does not stop the others."""
    return [_answer(world, actors, command) for command in _listed(commands, "commands")]


def _answer(world: World, actors: ActorMethods, command: Any) -> object:
    try:
        index, fields = wire.items(wire.items(command, "command", 1)[0], "command", 2)[:2]
        return wire.success(
            _run(world, actors, wire.whole(index, "command index"), wire.items(fields, "command fields"))
        )
    except RefusedError as refusal:
        return wire.failure(str(refusal))
    except Exception:
        log.exception("internal error in the command %s", wire.shown(command))
        return wire.failure("internal error in this command")


def _run(world: World, actors: ActorMethods, index: int, fields: Sequence[Any]) -> int:
    """The id of the actor concerned."""
    if index == SPAWN:
        return _spawn(world, actors, fields)
    if index == CONSOLE:
        raise RefusedError("not served: command ConsoleCommand")
    if index not in METHODS and index not in (DESTROY, WALKER_STATE):
        raise RefusedError(f"not served: command {index}")
    number = wire.whole(wire.items(fields, "command fields", 1)[0], "actor id")
    if index == DESTROY:
        if not actors.destroy_actor(number):
            raise RefusedError(f"unable to destroy actor {number}: not found")
    elif index == WALKER_STATE:
        steer_walker(world, *_exactly(fields, 3))
    else:
        method = getattr(actors, METHODS[index], None)
        if method is None:
            raise RefusedError(f"not served: {METHODS[index]}")
        _, argument = _exactly(fields, 2)
        method(number, [argument] if index == LIGHT_STATE else argument)
    return number


def _spawn(world: World, actors: ActorMethods, fields: Sequence[Any]) -> int:
    """The client leaves the attachment type of a batch unset, so it is ignored: every attachment is rigid."""
    description, transform, parent, _, socket, after = _exactly(fields, 6)
    follow_ups = _listed(after, "do_after")
    optional = wire.items(parent, "parent")
    parent_id = optional[1] if len(optional) == 2 and optional[0] else None
    actor = spawn(world, description, transform, parent_id, RIGID, "" if parent_id is None else socket)
    for command in follow_ups:
        # whatever fails, the actor exists, and the client needs its id to destroy it
        try:
            _follow_up(world, actors, actor.id, command)
        except RefusedError as refusal:
            log.warning("after spawning actor %d: %s", actor.id, refusal)
        except Exception:
            log.exception("internal error after spawning actor %d", actor.id)
    return actor.id


def _follow_up(world: World, actors: ActorMethods, number: int, command: Any) -> None:
    index, fields = wire.items(wire.items(command, "command", 1)[0], "command", 2)[:2]
    filled = [number, *wire.items(fields, "command fields")[1:]] if index != SPAWN else fields
    _run(world, actors, wire.whole(index, "command index"), filled)


def _listed(commands: Any, what: str) -> Sequence[Any]:
    listed = wire.items(commands, what)
    if len(listed) > LARGEST_BATCH:
        raise RefusedError(
            f"a batch of {len(listed)} commands would keep other clients waiting: send at most {LARGEST_BATCH} at once"
        )
    return listed


def _exactly(fields: Sequence[Any], count: int) -> Sequence[Any]:
    return wire.items(fields, "command fields", count)[:count]
