"""Keeps a vehicle of the fleet where the plan wants it: in its region, and on the move."""

import math
from dataclasses import dataclass
from typing import Any

from carla_bridge.cameras import CameraPair
from carla_bridge.config import VehicleConfig
from carla_bridge.regions import RegionMap

OUTSIDE_SECONDS = 5.0
"""A vehicle that has been outside its region for so long is put back; shorter excursions are part of driving."""
MOVED_METRES = 2.0


@dataclass
class Driver:
    """One vehicle of the fleet with its cameras, and what is known about its whereabouts."""

    config: VehicleConfig
    actor: Any
    cameras: CameraPair
    region: str
    inside_at: float = -math.inf
    """When it was last seen in its region."""
    moved_at: float = -math.inf
    moved_to: Any = None

    def arrive(self, location: Any, time: float) -> None:
        """It was just put there."""
        self.inside_at = self.moved_at = time
        self.moved_to = location

    def trouble(self, regions: RegionMap, time: float, stuck_seconds: float) -> str | None:
        """Why the vehicle must be put elsewhere, if it must."""
        location = self.actor.get_location()
        if not regions.left(self.region, location):
            self.inside_at = time
        if self.moved_to is None or location.distance(self.moved_to) > MOVED_METRES:
            self.moved_at, self.moved_to = time, location
        if time - self.inside_at >= OUTSIDE_SECONDS:
            return "left its region"
        if time - self.moved_at >= stuck_seconds:
            return "did not move"
        return None
