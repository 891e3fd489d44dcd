"""What CARLA's weather parameters mean for light and air."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.scene import Weather

Rgb = NDArray[np.float32]


@dataclass(frozen=True)
class Light:
    """Sun, sky and air at one moment; colours are red, green, blue from 0 to 1."""

    to_sun: NDArray[np.float64]
    """Unit vector in CARLA's axes; below the horizon at night."""
    sun: Rgb
    ambient: Rgb
    zenith: Rgb
    horizon: Rgb
    cloud: Rgb
    cloud_cover: float
    haze: Rgb
    """The colour that distance fades to."""
    extinction: float
    """Share of light lost per metre of air."""
    clear_metres: float
    """Distance at which fog begins."""
    shadow: float
    """How dark a cast shadow is, 0 to 1."""
    wetness: float
    rain: float
    night: float
    """0 by day, 1 in full darkness: when windows and lamps are lit."""


def light_of(weather: Weather) -> Light:
    """Everything that a weather decides about a picture's light."""
    altitude, azimuth = np.radians(weather.sun_altitude), np.radians(weather.sun_azimuth)
    to_sun = np.array([np.cos(altitude) * np.cos(azimuth), np.cos(altitude) * np.sin(azimuth), np.sin(altitude)])
    day = _smooth(weather.sun_altitude, -7.0, 14.0)
    low = (1 - _smooth(weather.sun_altitude, 2.0, 26.0)) * _smooth(weather.sun_altitude, -12.0, -2.0)
    cloud_cover = min(max(weather.cloudiness, weather.precipitation) / 100, 1.0)
    rain = min(weather.precipitation / 100, 1.0)
    fog = min(weather.fog_density / 100, 1.0)
    direct = day * (1 - 0.9 * _smooth(cloud_cover, 0.25, 0.95)) * (1 - 0.8 * fog)
    sun = direct * _mix((0.64, 0.60, 0.52), (0.72, 0.40, 0.20), low)
    overcast = _smooth(cloud_cover, 0.3, 1.0)
    ambient = _mix((0.16, 0.175, 0.225), _mix((0.46, 0.49, 0.54), (0.66, 0.67, 0.69), overcast), day)
    ambient = ambient * (1 - 0.2 * rain) + low * np.array([0.02, 0.0, 0.03], np.float32)
    zenith = _mix((0.02, 0.03, 0.07), (0.26, 0.46, 0.78), day)
    horizon = _mix((0.06, 0.08, 0.13), (0.70, 0.80, 0.90), day)
    horizon = _mix(horizon, (0.95, 0.58, 0.35), 0.75 * low * (1 - overcast))
    zenith = _mix(zenith, (0.30, 0.30, 0.46), 0.5 * low * (1 - overcast))
    grey = _mix((0.07, 0.08, 0.11), (0.68, 0.71, 0.75), day) * np.float32(1 - 0.25 * rain)
    zenith, horizon = _mix(zenith, 0.86 * grey, overcast), _mix(horizon, grey, overcast)
    haze = _mix(horizon, 1.06 * grey, min(1.0, 3 * fog + rain))
    cloud = _mix(1.25 * grey, (1.0, 0.66, 0.45), 0.6 * low * (1 - overcast))
    return Light(
        to_sun=to_sun,
        sun=sun.astype(np.float32),
        ambient=ambient.astype(np.float32),
        zenith=_mix(zenith, haze, min(1.0, 2.2 * fog)),
        horizon=_mix(horizon, haze, min(1.0, 3 * fog)),
        cloud=np.clip(cloud, 0, 1),
        cloud_cover=cloud_cover * max(0.0, 1 - 2.5 * fog),
        haze=np.clip(haze, 0, 1),
        extinction=0.0011 + 0.011 * rain + 0.1 * fog**1.6,
        clear_metres=max(weather.fog_distance, 0.0) * (fog > 0),
        shadow=float(0.55 * direct * (weather.sun_altitude > 2)),
        wetness=min(max(weather.wetness, weather.precipitation_deposits, 0.7 * weather.precipitation) / 100, 1),
        rain=rain,
        night=1 - _smooth(weather.sun_altitude, -4.0, 9.0),
    )


def _smooth(value: float, low: float, high: float) -> float:
    t = min(max((value - low) / (high - low), 0.0), 1.0)
    return t * t * (3 - 2 * t)


def _mix(a: object, b: object, share: float) -> Rgb:
    first, second = np.asarray(a, np.float32), np.asarray(b, np.float32)
    mixed: Rgb = first + np.float32(share) * (second - first)
    return mixed
