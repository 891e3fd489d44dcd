"""The parts of a plan's `carla` section: cameras, vehicles, regions, traffic, the stream and the schedule."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from fedagem.settings import Name, Settings, Several

EVERYWHERE = "everywhere"
"""The region of a vehicle if the plan names none: every spawn point of the map."""


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("is empty: give it a value, or leave the setting out.")
    return text


Text = Annotated[str, AfterValidator(_not_empty), Field(json_schema_extra={"minLength": 1})]
Numbers = Several[Annotated[int, Field(ge=0)]]
WeatherParameter = Annotated[float, Field(ge=-1e4, le=1e4)]


class SectionSettings(Settings):
    """Settings whose empty values count as left out: `town:` and `town: null` mean the default."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, values: Any) -> Any:
        if values is None:
            return {}
        if isinstance(values, Mapping):
            return {key: value for key, value in values.items() if value is not None or key not in cls.model_fields}
        return values


class CameraSettings(SectionSettings):
    """Both cameras of every vehicle."""

    width: int = Field(default=416, ge=16, le=4096)
    """Width of the images in pixels."""
    height: int = Field(default=256, ge=16, le=4096)
    """Height of the images in pixels."""
    fov: float = Field(default=90.0, ge=10.0, le=170.0)
    """Horizontal field of view in degrees."""
    x: float = Field(default=1.2, ge=-10.0, le=10.0)
    """Metres from the centre of the vehicle to the cameras, forwards."""
    z: float | None = Field(default=None, ge=0.0, le=20.0)
    """Height of the cameras above the road in metres; left out, they sit just above the roof of each vehicle."""
    pitch: float = Field(default=0.0, ge=-90.0, le=90.0)
    """Angle of the cameras in degrees; negative looks down."""


class VehicleSettings(SectionSettings):
    """One vehicle of the fleet, named after the collaborator that sees through it."""

    name: Name
    """Name of the collaborator; lower-case letters, digits, '-' and '_'."""
    region: Text = EVERYWHERE
    """Region in which the vehicle begins."""
    blueprint: Text | None = None
    """CARLA's id of the vehicle model; left out, the seed chooses a car."""


class RegionRule(SectionSettings):
    """Which spawn points of the map belong to a region; every part of the rule must hold."""

    spawn_points: Numbers | None = None
    """Spawn points of the map, by index; left out, all of them."""
    roads: Numbers | None = None
    """OpenDRIVE roads, by id; left out, all of them."""
    min_speed: float | None = Field(default=None, ge=0.0, le=500.0)
    """Lowest speed limit of the road in km/h."""
    max_speed: float | None = Field(default=None, ge=0.0, le=500.0)
    """Highest speed limit of the road in km/h."""
    min_lanes: int = Field(default=1, ge=1, le=20)
    """Lowest number of driving lanes next to each other in one direction."""
    max_lanes: int = Field(default=20, ge=1, le=20)
    """Highest number of driving lanes next to each other in one direction."""

    @property
    def by_lanes(self) -> bool:
        """Whether the rule says something about lanes, so that it can tell when a vehicle has left the region."""
        return self != RegionRule(spawn_points=self.spawn_points)


class TrafficSettings(SectionSettings):
    """The background traffic of one region."""

    vehicles: int = Field(default=0, ge=0, le=1000)
    """Number of vehicles with four wheels or more."""
    two_wheelers: int = Field(default=0, ge=0, le=1000)
    """Number of bicycles and motorcycles."""
    walkers: int = Field(default=0, ge=0, le=1000)
    """Number of pedestrians."""


class StreamSettings(SectionSettings):
    """How frames reach the collaborators."""

    host: Text = "127.0.0.1"
    """Address at which collaborators connect; beyond this machine it needs a token."""
    port: int = Field(default=4400, ge=0, le=65535)
    """Port at which collaborators connect; 0 takes a free one."""
    window_seconds: float = Field(default=200.0, ge=0.001, le=1e6)
    """Longest window that a collaborator may ask for, in simulation seconds; memory is bounded by it."""
    encoding: Literal["raw", "png", "jpeg"] = "raw"
    """How images travel; raw and png lose nothing, jpeg is smaller."""
    jpeg_quality: int = Field(default=95, ge=1, le=100)
    """Quality of jpeg images."""


class WeatherParameters(SectionSettings):
    """CARLA's weather parameters by name; those left out have CARLA's defaults."""

    cloudiness: WeatherParameter | None = None
    precipitation: WeatherParameter | None = None
    precipitation_deposits: WeatherParameter | None = None
    wind_intensity: WeatherParameter | None = None
    sun_azimuth_angle: WeatherParameter | None = None
    sun_altitude_angle: WeatherParameter | None = None
    fog_density: WeatherParameter | None = None
    fog_distance: WeatherParameter | None = None
    fog_falloff: WeatherParameter | None = None
    wetness: WeatherParameter | None = None
    scattering_intensity: WeatherParameter | None = None
    mie_scattering_scale: WeatherParameter | None = None
    rayleigh_scattering_scale: WeatherParameter | None = None
    dust_storm: WeatherParameter | None = None

    def given(self) -> dict[str, float]:
        """The parameters that the plan sets."""
        return self.model_dump(exclude_none=True)

    def __str__(self) -> str:
        return str(self.given())


Weather = str | WeatherParameters
"""The name of one of CARLA's presets, or parameters."""


class ScheduleEvent(SectionSettings):
    """A vehicle's change of region, or a change of the weather."""

    at: float = Field(ge=0.0, le=1e9)
    """Second of the fleet's timeline; the event is in force in the first frame at or after it."""
    vehicle: Text | None = None
    """The vehicle that changes its region."""
    region: Text | None = None
    """The region in which that vehicle drives from then on."""
    weather: Weather | None = None
    """The weather from then on: the name of one of CARLA's presets, or parameters by name."""
