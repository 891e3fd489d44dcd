"""What the plan lets happen when: a vehicle takes another region, the weather changes.

Times are seconds of the fleet's timeline. An event at second t is in force in the first frame at or after t.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from carla_bridge.config.settings import Settings
from carla_bridge.errors import ConfigError

WEATHER_PARAMETERS = (
    "cloudiness",
    "precipitation",
    "precipitation_deposits",
    "wind_intensity",
    "sun_azimuth_angle",
    "sun_altitude_angle",
    "fog_density",
    "fog_distance",
    "fog_falloff",
    "wetness",
    "scattering_intensity",
    "mie_scattering_scale",
    "rayleigh_scattering_scale",
    "dust_storm",
)

Weather = str | Mapping[str, float]
"""The name of one of CARLA's presets, or parameters by name (the others are CARLA's defaults)."""


@dataclass(frozen=True)
class Move:
    """From `at` on, `vehicle` drives in `region`."""

    at: float
    vehicle: str
    region: str


@dataclass(frozen=True)
class WeatherChange:
    at: float
    weather: Weather


@dataclass(frozen=True)
class Schedule:
    """All events, each kind in order of time."""

    moves: tuple[Move, ...] = ()
    weather: tuple[WeatherChange, ...] = ()

    def region(self, vehicle: str, start: str, time: float) -> str:
        """Where a vehicle that began in `start` belongs at `time`."""
        past = [move.region for move in self.moves if move.vehicle == vehicle and move.at <= time]
        return past[-1] if past else start

    def weather_at(self, time: float) -> Weather | None:
        past = [change.weather for change in self.weather if change.at <= time]
        return past[-1] if past else None


def parse_schedule(parts: list[Settings]) -> Schedule:
    moves: list[Move] = []
    weather: list[WeatherChange] = []
    for part in parts:
        at = part.number("at", math.nan, 0.0, 1e9)
        if math.isnan(at):
            raise ConfigError(f"{part.place} has no 'at', the second at which it happens")
        vehicle, change = part.optional_text("vehicle"), part.take("weather")
        if (vehicle is None) == (change is None):
            raise ConfigError(f"{part.place} must name either a 'vehicle' and its 'region', or a 'weather'")
        if vehicle is not None:
            moves.append(Move(at, vehicle, part.text("region")))
        else:
            weather.append(WeatherChange(at, _weather(change, part.place)))
        part.close()
    return Schedule(
        tuple(sorted(moves, key=lambda event: event.at)), tuple(sorted(weather, key=lambda event: event.at))
    )


def _weather(value: Any, place: str) -> Weather:
    if isinstance(value, str):
        return value
    part = Settings(value, f"{place}.weather")
    parameters = {name: part.optional_number(name, -1e4, 1e4) for name in WEATHER_PARAMETERS}
    part.close()
    return {name: number for name, number in parameters.items() if number is not None}
