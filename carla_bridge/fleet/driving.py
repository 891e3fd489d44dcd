"""Keeps vehicles where the plan wants them: in their regions, and on the move."""

import math
from dataclasses import dataclass
from typing import Any

from carla_bridge.config.section import VehicleConfig
from carla_bridge.fleet.cameras import CameraPair
from carla_bridge.fleet.regions import RegionMap

OUTSIDE_SECONDS = 5.0
"""A vehicle that has been outside its region for so long is put back; shorter excursions are part of driving."""
MOVED_METRES = 2.0


@dataclass
class Whereabouts:
    """Where a vehicle belongs, when it was last seen there, and when it last moved."""

    region: str
    inside_at: float = -math.inf
    moved_at: float = -math.inf
    moved_to: Any = None

    def arrive(self, location: Any, time: float) -> None:
        """It was just put there."""
        self.inside_at = self.moved_at = time
        self.moved_to = location

    def trouble(self, location: Any, regions: RegionMap, time: float, stuck_seconds: float) -> str | None:
        """Why the vehicle, which is now at `location`, must be put elsewhere, if it must."""
        if not regions.left(self.region, location):
            self.inside_at = time
        if self.moved_to is None or location.distance(self.moved_to) > MOVED_METRES:
            self.moved_at, self.moved_to = time, location
        if time - self.inside_at >= OUTSIDE_SECONDS:
            return "left its region"
        if time - self.moved_at >= stuck_seconds:
            return "did not move"
        return None


@dataclass
class Driver:
    """One vehicle of the fleet with its cameras."""

    config: VehicleConfig
    actor: Any
    cameras: CameraPair
    whereabouts: Whereabouts

    @property
    def region(self) -> str:
        return self.whereabouts.region
