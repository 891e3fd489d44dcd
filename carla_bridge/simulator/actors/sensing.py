"""What GNSS and IMU sensors measure."""

from math import asin, atan2, cos, cosh, degrees, pi, radians, sin, sinh

import numpy as np

from carla_bridge.simulator.actors.actor import Sensor
from carla_bridge.simulator.actors.posing import rotation
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.opendrive import LATITUDE, LONGITUDE

EARTH_RADIUS = 6378137.0
SCALE = 0.9996
GRAVITY = 9.81
FARTHEST = pi
"""East or west of the origin, in radii of the earth: beyond it nothing has a longitude."""


def geolocation(pose: Pose) -> tuple[float, float, float]:
    """Latitude, longitude and altitude of a place, as the client's own map computes them."""
    east = max(-FARTHEST, min(FARTHEST, pose.x / (SCALE * EARTH_RADIUS)))
    north = pose.y / (SCALE * EARTH_RADIUS) + radians(LATITUDE)
    latitude = degrees(asin(sin(north) / cosh(east)))
    longitude = LONGITUDE + degrees(atan2(sinh(east), cos(north)))
    return latitude, longitude, pose.z


def gnss(sensor: Sensor, frame: int) -> list[float]:
    """Latitude, longitude, altitude with the noise that the blueprint asks for."""
    noise = _noise(sensor, frame, 3)
    values = geolocation(sensor.pose)
    names = ("lat", "lon", "alt")
    return [
        value + _setting(sensor, f"noise_{name}_bias") + noise[i] * _setting(sensor, f"noise_{name}_stddev")
        for i, (name, value) in enumerate(zip(names, values, strict=True))
    ]


def imu(sensor: Sensor, frame: int) -> list[object]:
    """Accelerometer, gyroscope and compass in the sensor's own frame."""
    turned = rotation(sensor.pose)
    specific = turned.T @ (np.array(sensor.acceleration) + np.array([0.0, 0.0, GRAVITY]))
    rate = turned.T @ np.radians(sensor.angular_velocity)
    noise = _noise(sensor, frame, 6)
    accelerometer = [
        float(specific[i] + noise[i] * _setting(sensor, f"noise_accel_stddev_{axis}")) for i, axis in enumerate("xyz")
    ]
    gyroscope = [
        float(
            rate[i]
            + _setting(sensor, f"noise_gyro_bias_{axis}")
            + noise[3 + i] * _setting(sensor, f"noise_gyro_stddev_{axis}")
        )
        for i, axis in enumerate("xyz")
    ]
    # CARLA's north is -y
    compass = (radians(sensor.pose.yaw) + pi / 2) % (2 * pi)
    return [accelerometer, gyroscope, compass]


def _setting(sensor: Sensor, name: str) -> float:
    return float(sensor.settings[name])


def _noise(sensor: Sensor, frame: int, count: int) -> list[float]:
    """Standard normal numbers that depend on the sensor's seed and the frame only."""
    seed = [abs(int(sensor.settings["noise_seed"])), sensor.id, frame]
    return [float(number) for number in np.random.default_rng(seed).standard_normal(count)]
