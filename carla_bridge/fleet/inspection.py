"""Finds out whether a server is usable: versions, map, the blueprints a fleet needs, and speed."""

import time
from dataclasses import dataclass
from typing import Any

import carla

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError, ConfigError, ServerLostError
from carla_bridge.fleet.cameras import camera_kinds
from carla_bridge.fleet.cleanup import all_actors, leftovers
from carla_bridge.fleet.connection import alive, connect
from carla_bridge.fleet.fleet import Fleet
from carla_bridge.fleet.graphics import is_this_machine, missing_here

ACTORS = ("vehicle.*", "walker.pedestrian.*")
FRAMES = 20
SLOW = 5.0
"""Ticks per second below which something is wrong: a GPU gives tens of them, and so does the embedded simulator."""


@dataclass(frozen=True)
class Glance:
    """What can be seen of a server without touching it."""

    host: str
    port: int
    version: str
    map_name: str
    synchronous: bool
    """True means that another client is, or was, ticking it."""


@dataclass(frozen=True)
class Inspection:
    """What `carla-bridge check` found out."""

    host: str
    port: int
    version: str
    map_name: str
    maps: tuple[str, ...]
    synchronous: bool
    """The mode the server was found in; true means that another client is, or was, ticking it."""
    actors: int
    leftovers: int
    spawn_points: int
    regions: dict[str, int]
    """The number of spawn points by region of the plan."""
    blueprints: dict[str, int]
    frames_per_second: float
    """Annotated frames per second, of all vehicles of the plan together, with one frame per step."""
    boxes_per_frame: float
    ticks_per_second: float
    advice: tuple[str, ...] = ()
    """What is not as it should be although the server is usable, each with what to do."""


def glance(config: CarlaSettings) -> Glance:
    """Look at the server while others use it: nothing is ticked, spawned or removed."""
    client = connect(config.host, config.port, timeout=config.timeout_seconds, sensors=0)
    try:
        world = client.get_world()
        found = Glance(
            host=config.host,
            port=config.port,
            version=client.get_server_version(),
            map_name=_name_of_map(world, config),
            synchronous=world.get_settings().synchronous_mode,
        )
        if not found.synchronous:
            world.wait_for_tick(config.timeout_seconds)
    except RuntimeError as error:
        raise _silent(config, error) from error
    return found


def inspect(config: CarlaSettings) -> Inspection:
    """Look at the server, then drive a few frames; it is left as it was found."""
    try:
        return _inspect(config)
    except (ServerLostError, RuntimeError) as error:
        raise _silent(config, error) from error


def _inspect(config: CarlaSettings) -> Inspection:
    client = connect(config.host, config.port, timeout=config.timeout_seconds, sensors=0)
    world = client.get_world()
    name = _name_of_map(world, config)
    actors = all_actors(world)
    settings, library = world.get_settings(), world.get_blueprint_library()
    needed = (*camera_kinds(config.depth_check), *ACTORS)
    blueprints = {pattern: len(library.filter(pattern)) for pattern in needed}
    missing = [pattern for pattern, count in blueprints.items() if not count]
    if missing:
        raise BridgeError(f"the server at {config.host}:{config.port} has no {missing[0]}, which a fleet needs")
    found: dict[str, Any] = {
        "host": config.host,
        "port": config.port,
        "version": client.get_server_version(),
        "maps": tuple(sorted(path.rsplit("/", 1)[-1] for path in client.get_available_maps())),
        "synchronous": settings.synchronous_mode,
        "actors": len(actors),
        "leftovers": len(leftovers(actors)),
        "blueprints": blueprints,
    }
    with Fleet(config) as fleet:
        frames = fleet.advance()
        began = time.perf_counter()
        for _ in range(FRAMES):
            frames += fleet.advance()
        seconds = time.perf_counter() - began
        ticks = FRAMES * max(1, round(1 / (config.frames_per_second * config.fixed_delta_seconds)))
        return Inspection(
            **found,
            map_name=fleet.map_name,
            spawn_points=len(fleet.regions.spawn_points),
            regions={name: len(fleet.regions.spawn_indices(name)) for name in config.regions},
            frames_per_second=round(FRAMES * len(config.vehicles) / seconds, 1),
            ticks_per_second=round(ticks / seconds, 1),
            advice=tuple(_advice(config, name, found, ticks / seconds)),
            boxes_per_frame=round(sum(len(frame.boxes) for frame in frames) / len(frames), 2),
        )


def _name_of_map(world: carla.World, config: CarlaSettings) -> str:
    name = world.get_map().name.rsplit("/", 1)[-1]
    if not name:
        raise ConfigError(
            f"the server at {config.host}:{config.port} has no map loaded: start it with a map, or set carla.town"
        )
    return name


def _silent(config: CarlaSettings, error: Exception) -> ServerLostError:
    """Why a server that answers calls does not get further: usually its second port is not open."""
    streams = config.port + 1
    if streams <= 65535 and not alive(config.host, streams):
        return ServerLostError(
            f"CARLA answers at {config.host}:{config.port}, but nothing listens at {streams}, where its states and "
            f"images come from: open that port in the firewall or publish it from the container ({error})"
        )
    return ServerLostError(
        f"CARLA answers at {config.host}:{config.port} but did not go on in {config.timeout_seconds:g} s ({error}): "
        "it may still load its map or have hung, so check again, raise carla.timeout_seconds, or restart it"
    )


def _advice(config: CarlaSettings, name: str, found: dict[str, Any], ticks_per_second: float) -> list[str]:
    advice = []
    if found["synchronous"]:
        advice.append(
            "the world was found synchronous: another client ticks it, or one was killed; clients that tick disturb "
            "each other, so end the other one or give each a server of its own"
        )
    if config.town is not None and config.town != name:
        advice.append(f"the server showed {name} and now shows {config.town}, which stays loaded")
    if ticks_per_second < SLOW:
        advice.append(
            f"{ticks_per_second:.1f} ticks per second are very slow: if CARLA renders on the processor, give it a GPU; "
            "otherwise make the pictures smaller, or start it with -quality-level=Low"
        )
        if is_this_machine(config.host) and not config.embedded:
            advice += missing_here()
    return advice
