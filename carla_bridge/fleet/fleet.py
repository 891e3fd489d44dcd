"""The fleet: the only client that ticks a CARLA world; it drives the plan's vehicles and annotates their frames."""

import logging
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import cast

import carla
import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.annotation import Annotator
from carla_bridge.config.parts import EVERYWHERE, VehicleSettings, Weather
from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import ConfigError, ServerLostError
from carla_bridge.fleet.cameras import CameraRig, Shot, camera_kinds
from carla_bridge.fleet.cleanup import ServerState, destroy, mark
from carla_bridge.fleet.connection import alive, connect
from carla_bridge.fleet.regions import RegionMap
from carla_bridge.fleet.traffic import SpawnPoints, Traffic, VehicleBlueprints, relocate
from carla_bridge.fleet.vehicles import FleetVehicle, RegionWatch
from carla_bridge.fleet.visibility import ActorDistances, without_hidden
from carla_bridge.fleet.walkers import Walkers
from carla_bridge.frames import Frame
from carla_bridge.termination import termination_raises, uninterrupted

LOAD_SECONDS = 120.0
GRACE_SECONDS = 2.0
"""How long to wait for an image that may be due one step later, before the next step."""
STEER_SECONDS = 0.5
CHECK_SECONDS = 10.0
"""Simulated time in which every background vehicle is checked once."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Capture:
    """One frame of one vehicle before annotation; cheap to take, so that the next tick need not wait."""

    vehicle: str
    ego_id: int
    shot: Shot
    frame: int
    timestamp: float
    domain: str
    actor_ids: NDArray[np.int64] | None
    nearest: dict[int, float] | None = None
    """How far the actors are at least from the camera, by id, if the depth image is to be compared with it."""


class Fleet:
    """A context manager: inside, this client controls the world; afterwards the server is as it was found.

    `start` is the second of the timeline at which the first frame is taken. Places and blueprints follow from the seed
    and from `start`, so that a fleet that goes on where another ended does not repeat the beginning of its drive.
    `after_kill` if the fleet before it may have left something on the server.
    """

    def __init__(
        self,
        config: CarlaSettings,
        *,
        start: float = 0.0,
        after_kill: bool = False,
        report: Callable[[str], None] = logger.info,
    ) -> None:
        self.config = config
        self.vehicles: list[FleetVehicle] = []
        self._start_tick = _first_tick(config, start)
        self._rng = np.random.default_rng([config.seed, self._start_tick])
        self._after_kill = after_kill
        self._report = report
        self._annotator = annotator_of(config)
        self._cleanup = ExitStack()
        self._spawned: list[int] = []
        self._weather: Weather | None = None
        self._frame = 0
        self._due = 0
        self._origin = 0
        self._watching = False

    def __enter__(self) -> "Fleet":
        self._cleanup.enter_context(termination_raises())
        try:
            self._set_up()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            if isinstance(error, RuntimeError):
                raise ServerLostError(f"the server stopped answering while the fleet was set up ({error})") from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with uninterrupted():
            self._cleanup.close()

    @property
    def time(self) -> float:
        """Second of the timeline of the next frame."""
        return self._seconds(self._due - self._origin if self._due else self._start_tick)

    def advance(self) -> list[Frame]:
        """Drive on to the next frame of every vehicle, and annotate them."""
        return [self.annotate(capture) for capture in self.capture()]

    def capture(self) -> list[Capture]:
        """Drive on to the next frame of every vehicle."""
        with self._server_may_be_lost():
            self._drive_on(watch=True)
            shots = self._shots()
            self._frame_taken(min(shot.frame for shot in shots))
            actors = None if self.config.keep_parked else self._actor_ids()
            distances = self._distances if self.config.depth_check else None
            nearest = [distances.nearest(shot.mask.transform) if distances else None for shot in shots]
        return [
            Capture(
                vehicle=vehicle.config.name,
                ego_id=vehicle.actor.id,
                shot=shot,
                frame=shot.frame - self._origin,
                timestamp=self._seconds(shot.frame - self._origin),
                domain=self.map_name if vehicle.region == EVERYWHERE else vehicle.region,
                actor_ids=actors,
                nearest=away,
            )
            for vehicle, shot, away in zip(self.vehicles, shots, nearest, strict=True)
        ]

    def skip(self) -> None:
        """Drive on to the next frame without taking it; before the first `capture`.

        Nobody listens to the cameras, so nothing is drawn, and the world does not depend on that. Only the embedded
        simulator is certain to send an image at every step at which a frame is due, and so only there this is the step
        of the frame.
        """
        with self._server_may_be_lost():
            self._drive_on(watch=False)
            self._frame_taken(self._frame)

    def annotate(self, capture: Capture) -> Frame:
        image = cv2.cvtColor(capture.shot.colour_bgra(), cv2.COLOR_BGRA2RGB)
        mask, depth = capture.shot.mask_bgra(), capture.shot.depth_bgra()
        if depth is not None and capture.nearest is not None:
            mask = without_hidden(mask, depth, capture.nearest)
        return Frame(
            image=cast(NDArray[np.uint8], image),
            frame=capture.frame,
            timestamp=capture.timestamp,
            annotations=self._annotator.annotate(mask, capture.ego_id, capture.actor_ids),
            vehicle=capture.vehicle,
            domain=capture.domain,
        )

    def _seconds(self, tick: int) -> float:
        return round(tick * self.config.fixed_delta_seconds, 9)

    def _set_up(self) -> None:
        config = self.config
        for event in config.schedule:
            if event.weather is not None:
                _weather(event.weather)
        sensors = len(camera_kinds(config.depth_check)) * len(config.vehicles)
        self.client = connect(config.host, config.port, timeout=config.timeout_seconds, sensors=sensors)
        self.world = self._load(config.town)
        self._distances = ActorDistances(self.world)
        self.map_name = self.world.get_map().name.rsplit("/", 1)[-1]
        self._on_exit(ServerState(self.client, self.world, after_kill=self._after_kill).restore)
        self._own_the_clock()
        self.regions = RegionMap(self.world.get_map(), config.regions)
        self._places = SpawnPoints(self.regions, self._rng)
        self._walkers = Walkers(self.client, self.world, self.regions, self._rng)
        self._traffic = Traffic(
            self.client, self.world, self._places, self.regions, config.stuck_seconds, config.traffic_radius
        )
        self._on_exit(self._destroy_all)
        blueprints = VehicleBlueprints(self.world.get_blueprint_library(), self._rng)
        for wanted in config.vehicles:
            self._add_vehicle(wanted, blueprints)
        port = self._manager.get_port()
        self._traffic.place(blueprints, config.traffic, port)
        self._walkers.place(config.traffic)
        self._tick()
        self._traffic.begin(self.time)
        self._walkers.begin()
        for vehicle in self.vehicles:
            vehicle.actor.set_autopilot(True, port)
            self._manager.ignore_lights_percentage(vehicle.actor, config.ignore_lights)

    def _load(self, town: str | None) -> carla.World:
        world = self.client.get_world()
        if town is None or world.get_map().name.rsplit("/", 1)[-1] == town:
            return world
        maps = sorted(name.rsplit("/", 1)[-1] for name in self.client.get_available_maps())
        if town not in maps:
            raise ConfigError(f"carla.town is {town!r}; valid values: {', '.join(maps)}")
        self.client.set_timeout(LOAD_SECONDS)
        world = self.client.load_world(town)
        self.client.set_timeout(self.config.timeout_seconds)
        return world

    def _own_the_clock(self) -> None:
        settings = self.world.get_settings()
        settings.synchronous_mode = True
        settings.fixed_delta_seconds = self.config.fixed_delta_seconds
        settings.no_rendering_mode = False
        self.world.apply_settings(settings)
        self._manager = self.client.get_trafficmanager(self.config.traffic_manager_port or _free_port())
        self._on_exit(lambda: self._manager.set_synchronous_mode(False))
        self._manager.set_synchronous_mode(True)
        self._manager.set_random_device_seed(self.config.seed)
        self.world.set_pedestrians_seed(self.config.seed)
        self.world.reset_all_traffic_lights()

    def _add_vehicle(self, config: VehicleSettings, blueprints: VehicleBlueprints) -> None:
        region = self.config.region_at(config, self.time)
        blueprint = blueprints.car(config.blueprint)
        mark(blueprint, config.name)
        unused = self._places.unused(region)
        for index in unused:
            place = self._places.use(index)
            actor = cast(carla.Vehicle | None, self.world.try_spawn_actor(blueprint, place))
            if actor is not None:
                break
        else:
            raise ConfigError(f"none of the {len(unused)} free spawn points of {region!r} has room for {config.name!r}")
        self._spawned.append(actor.id)
        interval = self.config.frame_seconds if self.config.ticks_per_frame > 1 else 0.0
        cameras = CameraRig(interval, self.config.image, self.config.depth_check)
        cameras.mount(self.world, actor, self._spawned)
        vehicle = FleetVehicle(config, actor, cameras, RegionWatch(region))
        vehicle.watch.arrive(place.location, self.time)
        self.vehicles.append(vehicle)

    @contextmanager
    def _server_may_be_lost(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise ServerLostError(f"the server stopped answering at second {self.time:g} ({error})") from error

    def _drive_on(self, *, watch: bool) -> None:
        """Tick to the step at which the next frame is due; a camera takes its first image one step after `listen`."""
        self._follow_plan(self.time)
        arrived = False
        while not arrived:
            if watch and not self._watching and self._frame + 1 >= self._due:
                for vehicle in self.vehicles:
                    vehicle.cameras.listen()
                self._watching = True
            self._tick()
            arrived = self._frame >= self._due

    def _frame_taken(self, frame: int) -> None:
        """Go on with the timeline after the frame of this step of the world."""
        if not self._due:
            self._origin = frame - self._start_tick
        self._due = frame + self.config.ticks_per_frame

    def _tick(self) -> None:
        self._frame = self.world.tick(self.config.timeout_seconds)
        if self._frame % max(1, round(STEER_SECONDS / self.config.fixed_delta_seconds)) == 0:
            self._walkers.steer()

    def _shots(self) -> list[Shot]:
        """One shot of every vehicle.

        A server may deliver images of cameras with an interval a step early or late: they are taken as they
        come, and their frame number gives their time. Images between two frames are ignored. The embedded
        simulator is never late, only slow if the processor is busy: an extra step would make another drive.
        """
        every_tick = self.config.ticks_per_frame == 1
        punctual = every_tick or self.config.embedded
        earliest = self._due - self.config.ticks_per_frame // 2
        shots: dict[str, Shot] = {}
        for _ in range(1 if every_tick else self.config.ticks_per_frame + 1):
            for vehicle in self.vehicles:
                if vehicle.config.name not in shots:
                    shot = vehicle.cameras.next_shot(earliest, GRACE_SECONDS)
                    if shot is None and punctual:
                        shot = self._late_shot(vehicle, earliest)
                    if shot is not None:
                        shots[vehicle.config.name] = shot
            if len(shots) == len(self.vehicles):
                return [shots[vehicle.config.name] for vehicle in self.vehicles]
            self._tick()
        late = next(vehicle.config.name for vehicle in self.vehicles if vehicle.config.name not in shots)
        raise ServerLostError(f"the cameras of {late} sent no image at second {self.time:g}")

    def _late_shot(self, vehicle: FleetVehicle, earliest: int) -> Shot | None:
        """Wait for a shot that is certain to come, until the server's time-out, but not if the server is gone."""
        for _ in range(math.ceil(self.config.timeout_seconds / GRACE_SECONDS)):
            if not alive(self.config.host, self.config.port):
                raise ServerLostError(f"the server is gone: no image of {vehicle.config.name} at second {self.time:g}")
            shot = vehicle.cameras.next_shot(earliest, GRACE_SECONDS)
            if shot is not None:
                return shot
        return None

    def _follow_plan(self, time: float) -> None:
        weather = self.config.weather_at(time)
        if weather is not None and weather != self._weather:
            self.world.set_weather(_weather(weather))
            self._weather = weather
            self._report(f"second {time:g}: the weather becomes {weather}")
        for vehicle in self.vehicles:
            region = self.config.region_at(vehicle.config, time)
            if region != vehicle.region:
                vehicle.watch.region = region
                problem: str | None = f"moves to {region}"
            else:
                here = vehicle.actor.get_location()
                problem = vehicle.watch.problem(here, self.regions, time, self.config.stuck_seconds)
            if problem is not None:
                relocate(self.world, vehicle.actor, vehicle.watch, self._places, time)
                self._report(f"second {time:g}: {vehicle.config.name} {problem}")
        self._traffic.keep_in_place(time, self.config.frame_seconds / CHECK_SECONDS, self.vehicles)

    def _actor_ids(self) -> NDArray[np.int64]:
        return np.array([actor.id for actor in self.world.get_snapshot()], dtype=np.int64)

    def _on_exit(self, action: Callable[[], object]) -> None:
        """Undo something at the end; skipped if the server is dead, limited by the time-out if it is slow."""

        def undo() -> None:
            if alive(self.config.host, self.config.port):
                try:
                    action()
                except RuntimeError as error:
                    logger.warning("the clean-up was cut short: %s", error)

        self._cleanup.callback(undo)

    def _destroy_all(self) -> None:
        for vehicle in self.vehicles:
            vehicle.cameras.stop()
        others = self._traffic.spawned + self._walkers.controllers + self._walkers.spawned
        destroy(self.client, self.world.get_actors(self._spawned + others))


def annotator_of(config: CarlaSettings) -> Annotator:
    """The annotator that the plan asks for."""
    return Annotator(config.classes, min_pixels=config.min_pixels, keep_parked=config.keep_parked, split=config.split)


def _first_tick(config: CarlaSettings, start: float) -> int:
    """The first step at or after `start` at which a frame is due."""
    return config.ticks_per_frame * math.ceil(round(start / config.frame_seconds, 6))


def _weather(weather: Weather) -> carla.WeatherParameters:
    if not isinstance(weather, str):
        return carla.WeatherParameters(**weather.given())
    presets = {name for name in dir(carla.WeatherParameters) if name[0].isupper()}
    if weather not in presets:
        names = ", ".join(sorted(presets))
        raise ConfigError(f"carla.schedule asks for the weather {weather!r}; valid values: {names}")
    return cast(carla.WeatherParameters, getattr(carla.WeatherParameters, weather))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
