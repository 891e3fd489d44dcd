"""The speeds, distances and offsets that clients set for drivers, as columns kept until a client changes one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.traffic.driver import DriverSettings
from carla_bridge.simulator.traffic.driver_columns import STANDSTILL, VehicleTraits


@dataclass
class TrafficSettings:
    """The traffic manager's settings for all vehicles; they outlive an episode."""

    seed: int
    speed_difference: float = 0.0
    lane_offset: float = 0.0
    distance: float = 0.0


class DriverTargets:
    """One value per driver for every setting that has a general value and may be set for a single vehicle."""

    share_of_limit: Floats
    speed: Floats
    """m/s that replace the speed limit; NaN if none are set."""
    offset: Floats
    """To the right of the lane's centre."""
    distance: Floats
    """Metres to keep to a vehicle ahead."""
    any_speed: bool

    def __init__(self, traits: VehicleTraits, settings: Sequence[DriverSettings], for_all: TrafficSettings) -> None:
        self._traits = traits
        self._settings = settings
        self._for_all = for_all
        self._known: object = None

    def refresh(self) -> None:
        """Recompute the columns if a client changed anything since the last tick; called in every tick."""
        own = [(s.speed_difference, s.desired_speed, s.lane_offset, s.distance) for s in self._settings]
        for_all = self._for_all
        requested = (own, for_all.speed_difference, for_all.lane_offset, for_all.distance)
        if requested == self._known:
            return
        self._known = requested
        difference = [for_all.speed_difference if row[0] is None else row[0] for row in own]
        share = np.maximum(0.0, 1.0 - np.array(difference) / 100.0)
        self.share_of_limit = share * self._traits.speed_factor * self._traits.mass_factor
        self.speed = np.array([np.nan if row[1] is None else row[1] / 3.6 for row in own])
        self.any_speed = not bool(np.isnan(self.speed).all())
        self.offset = np.array([for_all.lane_offset if row[2] is None else row[2] for row in own])
        distance = [for_all.distance if row[3] is None else row[3] for row in own]
        self.distance = STANDSTILL + np.maximum(0.0, distance)
