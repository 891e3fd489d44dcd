"""Vehicles that the plan keeps in regions: which region each belongs to, and whether it must be moved."""

import math
from dataclasses import dataclass

import carla

from carla_bridge.config.parts import VehicleSettings
from carla_bridge.fleet.cameras import CameraRig
from carla_bridge.fleet.regions import RegionMap

OUTSIDE_SECONDS = 5.0
"""A vehicle that has been outside its region for so long is put back; shorter excursions are part of driving."""
MOVED_METRES = 2.0


@dataclass
class RegionWatch:
    """Follows one vehicle: when it was last inside its region, and when it last moved."""

    region: str
    inside_at: float = -math.inf
    moved_at: float = -math.inf
    moved_to: carla.Location | None = None

    def arrive(self, location: carla.Location, time: float) -> None:
        """Note that the vehicle was just put there."""
        self.inside_at = self.moved_at = time
        self.moved_to = location

    def problem(self, location: carla.Location, regions: RegionMap, time: float, stuck_seconds: float) -> str | None:
        """Why the vehicle, which is now at `location`, must be moved; None if it need not be."""
        if not regions.is_outside(self.region, location):
            self.inside_at = time
        if self.moved_to is None or location.distance(self.moved_to) > MOVED_METRES:
            self.moved_at, self.moved_to = time, location
        if time - self.inside_at >= OUTSIDE_SECONDS:
            return "left its region"
        if time - self.moved_at >= stuck_seconds:
            return "did not move"
        return None


@dataclass
class FleetVehicle:
    """One vehicle of the fleet with its cameras."""

    config: VehicleSettings
    actor: carla.Vehicle
    cameras: CameraRig
    watch: RegionWatch

    @property
    def region(self) -> str:
        return self.watch.region
