"""RPCs about the world as a whole. Each public method serves the RPC of its name."""

from collections.abc import Awaitable, Callable
from typing import Any
from zlib import crc32

from carla_bridge.simulator.episode import EpisodeSettings
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol import wire
from carla_bridge.simulator.protocol.actor_methods import ActorMethods
from carla_bridge.simulator.protocol.batches import run_batch
from carla_bridge.simulator.protocol.messages import token
from carla_bridge.simulator.protocol.rpc import Caller
from carla_bridge.simulator.protocol.streams import StreamHub
from carla_bridge.simulator.protocol.world_state import WorldStateWriter
from carla_bridge.simulator.scene import Pose, StaticObject
from carla_bridge.simulator.town.navigation_mesh import navigation_mesh
from carla_bridge.simulator.town.opendrive import opendrive
from carla_bridge.simulator.world import World

VERSION = "0.9.16"
WORLD_STREAM = 1
ANY_TAG = 255


class WorldMethods:
    """Episodes, settings, map, weather, ticks and batches."""

    def __init__(
        self,
        world: World,
        actors: ActorMethods,
        hub: StreamHub,
        tick: Callable[[], Awaitable[int]],
        next_frame: Callable[[], Awaitable[int]],
        changed: Callable[[], None],
        traffic_port: Callable[[], int],
    ) -> None:
        self._world = world
        self._actors = actors
        self._hub = hub
        self._tick = tick
        self._next_frame = next_frame
        self._changed = changed
        self._traffic_port = traffic_port
        self._map = opendrive(world.network, world.town.name, world.signals, world.signs)
        self._mesh = navigation_mesh()
        base, place = world.town.name.rsplit("/", 1)
        self._mesh_name = f"{base}/Nav/{place}-{crc32(self._mesh):08x}.bin"
        self._spawn_points = [wire.transform(place) for place in world.spawn_points]

    def version(self) -> str:
        return VERSION

    def get_episode_info(self) -> object:
        return [self._world.episode, [token(WORLD_STREAM, self._hub.port)]]

    def get_sensor_token(self, stream: Any) -> object:
        number = wire.whole(stream, "stream id")
        if number != WORLD_STREAM and not any(s.stream == number for s in self._world.sensors()):
            raise RefusedError(f"there is no stream {number}: its sensor has been destroyed")
        self._hub.expect(number)
        return [token(number, self._hub.port)]

    def get_episode_settings(self) -> object:
        return self._world.settings.wire()

    def set_episode_settings(self, settings: Any) -> int:
        self._world.settings = wire.episode_settings(settings)
        self._changed()
        return self._world.frame

    def load_new_episode(self, name: Any, reset_settings: Any = True, layers: Any = 0xFFFF) -> None:
        wanted = wire.text(name, "map name")
        ours = self._world.town.name
        if wanted and wanted.rsplit("/", 1)[-1] != ours.rsplit("/", 1)[-1]:
            raise RefusedError(f"map '{wanted}' not found: this simulator has only {ours}")
        wire.whole(layers, "map layers")
        if wire.flag(reset_settings, "reset_settings"):
            self._world.settings = EpisodeSettings()
        self._world.start_episode()
        self._hub.set_first_message(WORLD_STREAM, WorldStateWriter(self._world).message(map_changed=True))
        self._hub.expect_departure(WORLD_STREAM)
        self._changed()

    def get_available_maps(self) -> object:
        return [f"/Game/{self._world.town.name}"]

    def get_map_info(self) -> object:
        return [self._world.town.name, self._spawn_points]

    def get_map_data(self) -> str:
        return self._map

    def get_required_files(self, folder: Any = "") -> object:
        """Clients fetch only the walkers' mesh; its name changes with its contents, because clients cache it."""
        return [self._mesh_name] if wire.text(folder, "folder") == "Nav" else []

    def request_file(self, name: Any) -> bytes:
        if wire.text(name, "file name") != self._mesh_name:
            raise RefusedError(f"there is no file '{name}'")
        return self._mesh

    def get_actor_definitions(self) -> object:
        return self._world.library.wire()

    async def tick_cue(self) -> int:
        return await (self._tick() if self._world.settings.synchronous else self._next_frame())

    async def apply_batch(self, commands: Any, do_tick: Any) -> list[object]:
        answers = run_batch(self._world, self._actors, commands)
        if wire.flag(do_tick, "do_tick") and self._world.settings.synchronous:
            await self._tick()
        return answers

    def get_weather_parameters(self) -> object:
        return list(self._world.weather.values)

    def set_weather_parameters(self, weather: Any) -> None:
        self._world.weather = wire.weather(weather)

    def is_weather_enabled(self) -> bool:
        return True

    def query_lights_state(self, client: Any) -> object:
        """The map has no lights that clients may switch."""
        wire.text(client, "client")
        return []

    def get_all_level_BBs(self, tag: Any) -> object:  # noqa: N802 - CARLA's name
        return [_box(thing) for _, thing in self._tagged(tag)]

    def get_environment_objects(self, tag: Any) -> object:
        return [
            [wire.transform(thing.pose), _box(thing), number, f"{thing.kind}_{number}", thing.tag]
            for number, thing in self._tagged(tag)
        ]

    def is_traffic_manager_running(self, port: Any) -> bool:
        """Always true: the simulator drives the traffic itself, whatever port the client asks about."""
        wire.whole(port, "port", 0, 65535)
        return True

    def get_traffic_manager_running(self, caller: Caller, port: Any) -> object:
        wire.whole(port, "port", 0, 65535)
        return [caller.server_host, self._traffic_port()]

    def destroy_traffic_manager(self, port: Any) -> bool:
        wire.whole(port, "port", 0, 65535)
        return True

    def _tagged(self, tag: Any) -> list[tuple[int, StaticObject]]:
        """Things of the map with their numbers, which do not depend on the tag."""
        wanted = wire.whole(tag, "tag", 0, ANY_TAG)
        return [(n, thing) for n, thing in enumerate(self._world.town.objects) if wanted in (ANY_TAG, thing.tag)]


def _box(thing: StaticObject) -> list[object]:
    pose = thing.pose
    middle = Pose(pose.x, pose.y, pose.z + thing.size[2] / 2, pose.pitch, pose.yaw, pose.roll)
    place, turn = wire.transform(middle)
    return [place, [side / 2 for side in thing.size], turn, thing.object_id]
