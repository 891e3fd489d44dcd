"""Everything a drive depends on, as typed settings; a plan's `carla` section names them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from carla_bridge.annotation import Annotator
from carla_bridge.config.schedule import Schedule
from carla_bridge.tags import DEFAULT_SPLIT, DEFAULT_TAGS

Encoding = Literal["raw", "png", "jpeg"]
EVERYWHERE = "everywhere"
"""The region of a plan that names none: every spawn point of the map."""


@dataclass(frozen=True)
class ServerConfig:
    """Which CARLA server to use."""

    host: str = "127.0.0.1"
    port: int = 2000
    embedded: bool = False
    """Start the embedded simulator; host and port are then its own."""
    town: str | None = None
    """Map to load where the server shows another; None keeps what is there."""
    timeout_seconds: float = 20.0
    """How long one call or one image may take before the server counts as lost."""
    traffic_manager_port: int | None = None
    """None takes a free one."""


@dataclass(frozen=True)
class CameraConfig:
    """Both cameras of every vehicle: size in pixels, horizontal field of view, mounting in metres, degrees."""

    width: int = 416
    height: int = 256
    fov: float = 90.0
    x: float = 1.2
    z: float | None = None
    """Height above the road; None is just above the roof, whatever the vehicle."""
    pitch: float = 0.0


@dataclass(frozen=True)
class VehicleConfig:
    """One vehicle of the fleet, named after the collaborator that sees through it."""

    name: str
    region: str = EVERYWHERE
    blueprint: str | None = None


@dataclass(frozen=True)
class RegionRule:
    """Which spawn points belong to a region; every part of the rule must hold. Speeds in km/h."""

    spawn_points: tuple[int, ...] | None = None
    roads: tuple[int, ...] | None = None
    min_speed: float | None = None
    max_speed: float | None = None
    min_lanes: int = 1
    max_lanes: int = 20

    @property
    def by_lanes(self) -> bool:
        """Says something about lanes, so that one can tell whether a vehicle has left the region."""
        return self != RegionRule(spawn_points=self.spawn_points)


@dataclass(frozen=True)
class TrafficConfig:
    """How many others are about in a region."""

    vehicles: int = 0
    two_wheelers: int = 0
    walkers: int = 0


@dataclass(frozen=True)
class StreamConfig:
    """How frames reach the collaborators."""

    host: str = "127.0.0.1"
    port: int = 4400
    window_seconds: float = 200.0
    """Longest window a collaborator may ask for; memory is bounded by it."""
    encoding: Encoding = "raw"
    jpeg_quality: int = 95


@dataclass(frozen=True)
class FleetConfig:
    """The whole section."""

    server: ServerConfig = field(default_factory=ServerConfig)
    seed: int = 0
    fixed_delta_seconds: float = 0.05
    ticks_per_frame: int = 20
    camera: CameraConfig = field(default_factory=CameraConfig)
    vehicles: tuple[VehicleConfig, ...] = (VehicleConfig("vehicle_1"), VehicleConfig("vehicle_2"))
    traffic: Mapping[str, TrafficConfig] = field(default_factory=dict)
    regions: Mapping[str, RegionRule] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    tags: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: dict(DEFAULT_TAGS))
    split: tuple[str, ...] = DEFAULT_SPLIT
    """Classes with one box per connected piece of an object."""
    min_pixels: int = 16
    keep_parked: bool = True
    stuck_seconds: float = 90.0
    """A vehicle that has not moved for so long is put elsewhere in its region."""
    traffic_radius: float | None = None
    """Background vehicles farther than this from every fleet vehicle of their region are moved near one."""
    ignore_lights: float = 0.0
    """Percentage of red lights that the fleet's own vehicles drive past: frames taken while waiting are all alike."""
    stream: StreamConfig = field(default_factory=StreamConfig)

    @property
    def frame_seconds(self) -> float:
        """Simulation time from one frame to the next."""
        return round(self.fixed_delta_seconds * self.ticks_per_frame, 9)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.tags)

    def annotator(self) -> Annotator:
        return Annotator(self.tags, min_pixels=self.min_pixels, keep_parked=self.keep_parked, split=self.split)

    def at(self, host: str, port: int) -> "FleetConfig":
        return replace(self, server=replace(self.server, host=host, port=port))
