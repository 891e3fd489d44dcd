"""Finds out whether a server is usable: versions, map, the blueprints a fleet needs, and speed."""

import time
from dataclasses import dataclass
from typing import Any

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError
from carla_bridge.fleet.cameras import camera_kinds
from carla_bridge.fleet.cleanup import all_actors, leftovers
from carla_bridge.fleet.connection import connect
from carla_bridge.fleet.fleet import Fleet

ACTORS = ("vehicle.*", "walker.pedestrian.*")
FRAMES = 20


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


def inspect(config: CarlaSettings) -> Inspection:
    """Look at the server, then drive a few frames; it is left as it was found."""
    client = connect(config.host, config.port, timeout=config.timeout_seconds, sensors=0)
    world = client.get_world()
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
        "maps": tuple(sorted(name.rsplit("/", 1)[-1] for name in client.get_available_maps())),
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
        speed = FRAMES * len(config.vehicles) / (time.perf_counter() - began)
        return Inspection(
            **found,
            map_name=fleet.map_name,
            spawn_points=len(fleet.regions.spawn_points),
            regions={name: len(fleet.regions.spawn_indices(name)) for name in config.regions},
            frames_per_second=round(speed, 1),
            boxes_per_frame=round(sum(len(frame.boxes) for frame in frames) / len(frames), 2),
        )
