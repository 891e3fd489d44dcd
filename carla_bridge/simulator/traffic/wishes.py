"""What drivers were told of speed, distance and place, as columns that last until a client changes something."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.traffic.driver import DriverSettings
from carla_bridge.simulator.traffic.driver_columns import STANDSTILL, Build


@dataclass
class General:
    """Settings of the traffic manager for all its vehicles, in every episode."""

    seed: int
    speed_difference: float = 0.0
    lane_offset: float = 0.0
    distance: float = 0.0


class Wishes:
    """A value for each driver of everything that has a general value and may have one of its own."""

    share_of_limit: Floats
    top: Floats
    """m/s that replace the limit; NaN where none do."""
    offset: Floats
    """To the right of the lane's centre."""
    distance: Floats
    """To be left to whoever stands in front."""
    any_top: bool

    def __init__(self, build: Build, settings: Sequence[DriverSettings], general: General) -> None:
        self._build = build
        self._settings = settings
        self._general = general
        self._known: object = None

    def refresh(self) -> None:
        """To be called in every tick: looks whether anything was changed since the last."""
        own = [(s.speed_difference, s.desired_speed, s.lane_offset, s.distance) for s in self._settings]
        general = self._general
        told = (own, general.speed_difference, general.lane_offset, general.distance)
        if told == self._known:
            return
        self._known = told
        difference = [general.speed_difference if row[0] is None else row[0] for row in own]
        share = np.maximum(0.0, 1.0 - np.array(difference) / 100.0)
        self.share_of_limit = share * self._build.temper * self._build.haste
        self.top = np.array([np.nan if row[1] is None else row[1] / 3.6 for row in own])
        self.any_top = not bool(np.isnan(self.top).all())
        self.offset = np.array([general.lane_offset if row[2] is None else row[2] for row in own])
        distance = [general.distance if row[3] is None else row[3] for row in own]
        self.distance = STANDSTILL + np.maximum(0.0, distance)
