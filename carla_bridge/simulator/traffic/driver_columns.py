"""All drivers of a tick as columns: traits of their vehicles, how vehicles move, and road users as discs."""

from collections.abc import Sequence
from math import cos, radians, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors.actor import Vehicle, Walker
from carla_bridge.simulator.actors.tables import table
from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.traffic.driver import Driver

HEAVY = 5000.0
"""Vehicles heavier than this many kilograms are driven a little slower."""
STANDSTILL = 2.0
"""Metres kept to a standing vehicle ahead."""
WALKER_RADIUS = 0.35


class Motion(NamedTuple):
    """Positions and velocities of vehicles, one value per vehicle."""

    x: Floats
    y: Floats
    yaw: Floats
    """In radians."""
    cos: Floats
    sin: Floats
    speed: Floats
    vx: Floats
    vy: Floats

    @classmethod
    def of(cls, vehicles: Sequence[Vehicle]) -> "Motion":
        rows = []
        for vehicle in vehicles:
            x, y, _, _, degrees, _ = vehicle.pose
            yaw = radians(degrees)
            rows.append((x, y, yaw, cos(yaw), sin(yaw), vehicle.speed, *vehicle.velocity[:2]))
        return cls(*table(rows, 8).T.copy())

    def only(self, rows: NDArray[np.int64]) -> "Motion":
        """The rows of these vehicles."""
        return Motion(*np.array(self)[:, rows])


class Discs(NamedTuple):
    """Everything that could block a path; a vehicle is three discs in a row."""

    x: Floats
    y: Floats
    vx: Floats
    vy: Floats


class RoadUsers:
    """Vehicles and walkers as discs: the radii and owners, which do not change. Walkers come last."""

    def __init__(self, vehicles: Sequence[Vehicle], walkers: Sequence[Walker]) -> None:
        extents = np.array([vehicle.extent[:2] for vehicle in vehicles]).reshape(-1, 2)
        self._reach = np.maximum(extents[:, 0] - extents[:, 1], 0.0)
        """From the middle of a vehicle to the centres of its outer discs."""
        self._walkers = walkers
        self.radius = np.concatenate([np.repeat(extents[:, 1], 3), np.full(len(walkers), WALKER_RADIUS)])
        owners = [vehicle.id for vehicle in vehicles for _ in range(3)] + [walker.id for walker in walkers]
        self.owners = np.array(owners, dtype=np.int64)
        self.first_walker = 3 * len(vehicles)

    def discs(self, motion: Motion) -> Discs:
        """The discs' present positions; `motion` is that of the vehicles."""
        rows = np.empty((4, len(self.owners)))
        cars = rows[:, : self.first_walker].reshape(4, -1, 3)
        cars[...] = np.array([motion.x, motion.y, motion.vx, motion.vy])[:, :, None]
        shift = self._reach * np.array([motion.cos, motion.sin])
        cars[:2, :, 0] -= shift
        cars[:2, :, 2] += shift
        if self._walkers:
            people = [(*walker.pose[:2], *walker.velocity[:2]) for walker in self._walkers]
            rows[:, self.first_walker :] = table(people, 4).T
        return Discs(*rows)


class VehicleTraits:
    """Constant properties of the drivers and their vehicles, one value per driver."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        models = [driver.vehicle.model for driver in drivers]
        self.ids = np.array([driver.vehicle.id for driver in drivers])
        self.half_length, self.half_width = np.array([driver.vehicle.extent[:2] for driver in drivers]).T
        self.wheelbase = np.array([model.wheelbase for model in models])
        self.steering_lock = np.radians([model.max_steer for model in models])
        """At rest, in radians."""
        self.acceleration = np.array([model.acceleration for model in models])
        self.top_speed = [model.top_speed for model in models]
        self.speed_factor = np.array([driver.speed_factor for driver in drivers])
        self.mass_factor = np.array([0.9 if model.mass > HEAVY else 1.0 for model in models])
        self.free_acceleration = np.minimum(2.4, 0.6 * self.acceleration)
        """Acceleration from standstill on a free road."""
