"""The `carla` section of a plan: everything that a drive depends on, as one typed object.

It is the schema of the section and the object that the bridge works with.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from carla_bridge.config.parts import (
    EVERYWHERE,
    CameraSettings,
    RegionRule,
    ScheduleEvent,
    SectionSettings,
    StreamSettings,
    Text,
    TrafficSettings,
    VehicleSettings,
    Weather,
    WeatherParameters,
)
from carla_bridge.errors import AnnotationError
from carla_bridge.tags import DEFAULT_SPLIT, DEFAULT_TAGS, label_by_tag
from fedagem.errors import PlanError
from fedagem.settings import NAME_RULE, Several, is_name, parse_settings, suggestion

Tags = Annotated[Several[int], BeforeValidator(lambda tags: () if tags is None else tags)]


class CarlaSettings(SectionSettings):
    """What the vehicles of a fleet do in a CARLA server, and how their frames reach the collaborators."""

    simulator: Literal["embedded"] | None = None
    """Start the embedded simulator instead of connecting to a server."""
    host: Text = "127.0.0.1"
    """Host of a running CARLA server."""
    port: int = Field(default=2000, ge=1, le=65535)
    """RPC port of the server."""
    town: Text | None = None
    """Map to load; left out, the server keeps the one it shows."""
    timeout_seconds: float = Field(default=20.0, ge=0.5, le=600.0)
    """How long one call or one image may take before the server counts as lost."""
    traffic_manager_port: int = Field(default=0, ge=0, le=65535)
    """Port of CARLA's Traffic Manager; 0 takes a free one."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seed of vehicles, traffic and places; the embedded simulator also builds its town from it."""
    fixed_delta_seconds: float = Field(default=0.05, ge=0.001, le=0.1)
    """Step of the synchronous world in simulation seconds."""
    frames_per_second: float = Field(default=1.0, ge=0.001, le=1000.0)
    """Frames per simulation second; a frame is taken after a whole number of steps."""
    image: CameraSettings = CameraSettings()
    """Both cameras of every vehicle."""
    vehicles: Several[VehicleSettings] = (
        VehicleSettings(name="vehicle_1"),
        VehicleSettings(name="vehicle_2"),
    )
    """The vehicles of the fleet."""
    traffic: dict[str, TrafficSettings] = Field(default_factory=dict)
    """Background traffic by region."""
    regions: dict[str, RegionRule] = Field(default_factory=dict)
    """Parts of the map by name; the region "everywhere" always exists."""
    schedule: Several[ScheduleEvent] = ()
    """Changes of region and of the weather, in any order."""
    classes: dict[str, Tags] = Field(default_factory=lambda: dict(DEFAULT_TAGS))
    """CARLA's semantic tags by class, in label order."""
    split_classes: Several[str] | None = None
    """Classes with one box per connected piece of an object; left out, traffic_light if it is a class."""
    min_pixels: int = Field(default=16, ge=1, le=10**6)
    """Objects with fewer visible pixels get no box."""
    depth_check: bool = False
    """Leave out what the depth image shows to be hidden, such as vehicles behind a hill; every vehicle gets a third
    camera."""
    parked_vehicles: Literal["keep", "drop"] = "keep"
    """Whether vehicles that belong to the map, and are not actors, get boxes."""
    stuck_seconds: float = Field(default=90.0, ge=1.0, le=1e6)
    """A vehicle that has not moved for so long is moved elsewhere in its region."""
    traffic_radius: float | None = Field(default=None, ge=100.0, le=1e5)
    """Background vehicles farther than so many metres from the fleet vehicles of their region are moved near one."""
    ignore_lights: float = Field(default=0.0, ge=0.0, le=100.0)
    """Percentage of red lights that the fleet's vehicles ignore: frames taken while waiting are all alike."""
    stream: StreamSettings = StreamSettings()
    """How frames reach the collaborators."""

    @property
    def embedded(self) -> bool:
        """Whether the embedded simulator is to be started; host and port are then chosen by it."""
        return self.simulator == "embedded"

    @property
    def ticks_per_frame(self) -> int:
        """Steps of the world from one frame to the next."""
        return round(1 / (self.frames_per_second * self.fixed_delta_seconds))

    @property
    def frame_seconds(self) -> float:
        """Simulation time from one frame to the next."""
        return round(self.fixed_delta_seconds * self.ticks_per_frame, 9)

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.classes)

    @property
    def split(self) -> tuple[str, ...]:
        """Classes with one box per connected piece of an object."""
        if self.split_classes is None:
            return tuple(name for name in DEFAULT_SPLIT if name in self.classes)
        return self.split_classes

    @property
    def keep_parked(self) -> bool:
        return self.parked_vehicles == "keep"

    def region_at(self, vehicle: VehicleSettings, time: float) -> str:
        """The region in which the schedule wants a vehicle at `time`."""
        moves = [event for event in self._past(time) if event.vehicle == vehicle.name]
        return moves[-1].region or EVERYWHERE if moves else vehicle.region

    def weather_at(self, time: float) -> Weather | None:
        """The weather that the schedule wants at `time`; None if it says nothing yet."""
        changes = [event.weather for event in self._past(time) if event.weather is not None]
        return changes[-1] if changes else None

    def _past(self, time: float) -> list[ScheduleEvent]:
        return sorted((event for event in self.schedule if event.at <= time), key=lambda event: event.at)

    def at(self, host: str, port: int) -> "CarlaSettings":
        """The same drive on the server at this address."""
        return self.model_copy(update={"host": host, "port": port})

    @field_validator("schedule", mode="before")
    @classmethod
    def _read_weather(cls, events: Any) -> Any:
        """Weather is a name or parameters; here the place is known that an error must name."""
        if not isinstance(events, list | tuple):
            return events
        return [_with_weather(event, f"carla.schedule[{number}].weather") for number, event in enumerate(events)]

    @model_validator(mode="after")
    def _check(self) -> "CarlaSettings":
        if self.embedded and "host" in self.model_fields_set:
            raise PlanError(f"carla.simulator and carla.host ({self.host}) exclude each other; keep one of them.")
        ticks = 1 / (self.frames_per_second * self.fixed_delta_seconds)
        if round(ticks) < 1 or abs(ticks - round(ticks)) > 1e-6 * ticks:
            raise PlanError(
                f"carla.frames_per_second {self.frames_per_second:g} does not divide the "
                f"{1 / self.fixed_delta_seconds:g} steps per second of carla.fixed_delta_seconds "
                f"{self.fixed_delta_seconds:g}; a frame is taken after a whole number of steps."
            )
        self._check_classes()
        self._check_vehicles()
        for region in self.regions:
            if not is_name(region):
                raise PlanError(f"carla.regions has the name {region!r}; use {NAME_RULE}.")
        for vehicle in self.vehicles:
            self._check_region("carla.vehicles", vehicle.region)
        for region in self.traffic:
            self._check_region("carla.traffic", region)
        self._check_schedule()
        return self

    def _check_classes(self) -> None:
        if not self.classes:
            raise PlanError("carla.classes names no class; leave it out for the default classes.")
        try:
            label_by_tag(self.classes)
        except AnnotationError as error:
            raise PlanError(f"carla.classes: {error}.") from error
        for name in self.split_classes or ():
            if name not in self.classes:
                raise PlanError(f"carla.split_classes has {name!r}{suggestion(name, self.classes)}")

    def _check_vehicles(self) -> None:
        if not self.vehicles:
            raise PlanError("carla.vehicles names no vehicle; leave it out for two vehicles.")
        names = [vehicle.name for vehicle in self.vehicles]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"carla.vehicles has the name {name!r} twice; give every vehicle another name.")

    def _check_schedule(self) -> None:
        vehicles = [vehicle.name for vehicle in self.vehicles]
        for number, event in enumerate(self.schedule):
            place = f"carla.schedule[{number}]"
            moves = event.vehicle is not None and event.region is not None and event.weather is None
            changes_weather = event.weather is not None and event.vehicle is None and event.region is None
            if not moves and not changes_weather:
                raise PlanError(f"{place} must name either a 'vehicle' and its 'region', or a 'weather'.")
            if event.vehicle is not None and event.vehicle not in vehicles:
                raise PlanError(f"{place} moves the vehicle {event.vehicle!r}{suggestion(event.vehicle, vehicles)}")
            if event.region is not None:
                self._check_region(place, event.region)

    def _check_region(self, place: str, region: str) -> None:
        regions = {EVERYWHERE, *self.regions}
        if region not in regions:
            raise PlanError(f"{place} uses the region {region!r}{suggestion(region, regions)}")


def _with_weather(event: Any, path: str) -> Any:
    weather = event.get("weather") if isinstance(event, Mapping) else None
    if weather is None or isinstance(weather, str | WeatherParameters):
        return event
    if not isinstance(weather, Mapping):
        raise PlanError(f"{path} must be a string, the name of a preset, or a mapping of parameters, not {weather!r}.")
    return {**event, "weather": parse_settings(WeatherParameters, weather, path)}
