"""Autopilot traffic: all drivers look ahead, keep their distance, obey the lights and stay in their lanes.

Expensive steps are done for all drivers at once, on columns with one value per driver.
"""

from math import pi, radians

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors.actor import TrafficLight, Vehicle, VehicleControl
from carla_bridge.simulator.actors.actor_index import ActorIndex
from carla_bridge.simulator.actors.physics import FULL_BRAKE, steering_locks
from carla_bridge.simulator.town.path import Floats
from carla_bridge.simulator.town.road_network import LaneId, RoadNetwork
from carla_bridge.simulator.town.road_signals import STOP_LINE
from carla_bridge.simulator.traffic.driver import Driver, DriverSettings
from carla_bridge.simulator.traffic.driver_columns import Motion, RoadUsers, VehicleTraits
from carla_bridge.simulator.traffic.driver_targets import DriverTargets, TrafficSettings
from carla_bridge.simulator.traffic.junctions import JunctionPermits
from carla_bridge.simulator.traffic.keeping_distance import (
    COMFORT_BRAKE,
    EMERGENCY_BRAKE,
    SPACING,
    Paths,
    close_pairs,
    keep_distance,
)
from carla_bridge.simulator.traffic.lane_changes import LaneChanges
from carla_bridge.simulator.traffic.route_table import SAMPLES, Places, RouteTable

AT_LIGHT = STOP_LINE + 6.0
"""Metres before the end of the lane within which a vehicle counts as being at the light."""
LEAD = 0.15
"""Seconds ahead of the vehicle at which the path's curvature is taken for steering."""


class ActiveDrivers:
    """The drivers of a tick, with everything that can be kept until the set of drivers or actors changes."""

    def __init__(self, drivers: list[Driver], actor_index: ActorIndex, settings: TrafficSettings) -> None:
        self.drivers = drivers
        self.actor_index = actor_index
        self.traits = VehicleTraits(drivers)
        self.road_users = RoadUsers(actor_index.vehicles, actor_index.walkers)
        self.routes = RouteTable(drivers)
        self.targets = DriverTargets(self.traits, [driver.settings for driver in drivers], settings)
        vehicle_rows = {vehicle.id: number for number, vehicle in enumerate(actor_index.vehicles)}
        self.vehicle_rows = np.array([vehicle_rows[driver.vehicle.id] for driver in drivers])
        """The index of each driver's vehicle among all vehicles."""
        self.foreign = self.traits.ids[:, None] != self.road_users.owners
        """(n, discs): which discs do not belong to the driver's own vehicle."""


class Traffic:
    """All autopilots of an episode."""

    def __init__(self, network: RoadNetwork, lights: list[TrafficLight], settings: TrafficSettings) -> None:
        self.settings = settings
        self._network = network
        self._lights: dict[LaneId, TrafficLight] = {lane: light for light in lights for lane in light.signal.lanes}
        self._registered = 0
        self._frame = 0
        self.drivers: dict[int, Driver] = {}
        self._driver_settings: dict[int, DriverSettings] = {}
        self._permits = JunctionPermits(self._lights)
        self._lane_changes = LaneChanges()
        self._active: ActiveDrivers | None = None

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of all drivers from this seed."""
        self.settings.seed = seed
        self._registered = self._frame = 0
        for driver in self.drivers.values():
            driver.random = self._next_random()

    def register(self, vehicle: Vehicle) -> Driver:
        """Give the vehicle a driver; one that has a driver keeps it."""
        driver = self.drivers.get(vehicle.id)
        if driver is None:
            vehicle.autopilot = True
            vehicle.ackermann = None
            random = self._next_random()
            driver = Driver(vehicle, self._network, random, self.settings_of(vehicle), self._registered)
            self.drivers[vehicle.id] = driver
        return driver

    def settings_of(self, vehicle: Vehicle) -> DriverSettings:
        """The vehicle's settings, which may be made before it has a driver."""
        return self._driver_settings.setdefault(vehicle.id, DriverSettings())

    def unregister(self, vehicle: Vehicle) -> None:
        vehicle.autopilot = False
        if self.drivers.pop(vehicle.id, None) is not None:
            self._permits.forget(vehicle.id)

    def forget(self, vehicle: Vehicle) -> None:
        """Drop everything about a vehicle that was destroyed."""
        self.unregister(vehicle)
        self._driver_settings.pop(vehicle.id, None)

    def relocate(self, vehicle: Vehicle) -> None:
        """Let the driver of a vehicle that a client moved find its lane again."""
        driver = self.drivers.get(vehicle.id)
        if driver is not None:
            self._permits.forget(vehicle.id)
            driver.find_lane()

    def step(self, actor_index: ActorIndex, dt: float) -> None:
        """Set the controls of every autopilot vehicle, and the speed limit and traffic light of every vehicle."""
        self._frame += 1
        for vehicle in actor_index.vehicles:
            if not vehicle.autopilot:
                self._update_limit_and_light(vehicle)
        drivers = [driver for driver in self.drivers.values() if driver.vehicle.simulates_physics]
        if not drivers:
            return
        active = self._active_drivers(drivers, actor_index)
        all_motion = Motion.of(actor_index.vehicles)
        motion = all_motion.only(active.vehicle_rows)
        locate(active, motion)
        self._lane_changes.consider(drivers, actor_index.vehicles, self._frame, dt)
        active.routes.refresh()
        paths, bends, desired = _look_ahead(active, motion.speed)
        acceleration = _free_road(motion.speed, desired, active.traits.free_acceleration)
        discs = active.road_users.discs(all_motion)
        close = close_pairs(motion, discs, active.foreign)
        _drop_ignored(drivers, active.road_users, close)
        gaps = active.targets.distance
        keep_distance(close, active.traits, motion.speed, gaps, paths, active.road_users, discs, acceleration)
        for number, (driver, gap) in enumerate(zip(drivers, self._permits.gaps(drivers), strict=True)):
            if gap is not None:
                wanted = _stop_within(gap, driver.vehicle.speed)
                acceleration[number] = min(acceleration[number], wanted)
        steer = _steering(active, motion, bends)
        self._control(drivers, steer, *_pedals(active.traits, motion.speed, acceleration))

    def _active_drivers(self, drivers: list[Driver], actor_index: ActorIndex) -> ActiveDrivers:
        """Those of the last tick if no driver or actor was added or removed, with the clients' changes applied."""
        if self._active is None or self._active.actor_index is not actor_index or self._active.drivers != drivers:
            self._active = ActiveDrivers(drivers, actor_index, self.settings)
        self._active.routes.refresh()
        self._active.targets.refresh()
        return self._active

    def _next_random(self) -> np.random.Generator:
        self._registered += 1
        return np.random.default_rng([self.settings.seed, self._registered])

    def _update_limit_and_light(self, vehicle: Vehicle) -> None:
        pose = vehicle.pose
        lane, s, aside = self._network.nearest(pose.x, pose.y, radians(pose.yaw))
        if aside < 3.0:
            vehicle.speed_limit = lane.speed_limit
        near = lane.length - s - vehicle.extent[0] < AT_LIGHT and aside < 2.0
        vehicle.waits_at = self._lights.get(lane.id) if near else None

    def _control(self, drivers: list[Driver], steer: Floats, throttle: Floats, brake: Floats) -> None:
        columns = zip(drivers, throttle.tolist(), steer.tolist(), brake.tolist(), strict=True)
        for driver, gas, turn, stop in columns:
            vehicle, lane = driver.vehicle, driver.lane
            gear = 1 + min(5, int(abs(vehicle.speed) / 7.0))
            vehicle.control = VehicleControl(gas, turn, stop, False, False, False, gear)
            vehicle.speed_limit = lane.speed_limit
            near = lane.length - driver.s - vehicle.extent[0] < AT_LIGHT
            vehicle.waits_at = self._lights.get(lane.id) if near else None


def locate(active: ActiveDrivers, motion: Motion) -> None:
    """Update how far every vehicle has come along its route; the rear axle follows the path."""
    back = active.traits.wheelbase / 2
    places: Places = active.routes.locate(motion.x - back * motion.cos, motion.y - back * motion.sin, back)
    columns = (column.tolist() for column in places)
    for driver, is_lost, *place in zip(active.drivers, *columns, strict=True):
        if is_lost:
            driver.find_lane()
        else:
            driver.arrive(*place)


def _look_ahead(active: ActiveDrivers, speeds: Floats) -> tuple[Paths, Floats, Floats]:
    """The road ahead of each driver, its curvature at the steering point, and the speed to aim for."""
    leads = (LEAD * speeds).tolist()
    rows = [driver.look_ahead(lead) for driver, lead in zip(active.drivers, leads, strict=True)]
    first, gap, bends = zip(*rows, strict=True)
    x, y, yaw, _, limit, in_bend = active.routes.ahead(np.array(first))
    distance = np.array(gap)[:, None] + _SAMPLE_DISTANCES
    targets = active.targets
    limit *= targets.share_of_limit[:, None]
    if targets.any_speed:
        limit = np.where(np.isnan(targets.speed)[:, None], limit, targets.speed[:, None])
    for number, driver in enumerate(active.drivers):
        offset: Floats | float = targets.offset[number]
        if driver.changing:
            offset = offset + driver.lateral_shift(distance[number])
        elif not offset:
            continue
        x[number] -= offset * np.sin(yaw[number])
        y[number] += offset * np.cos(yaw[number])
    ceiling = np.minimum(limit, in_bend)
    room = np.maximum(distance - 1.0, 0.0)
    desired = np.sqrt(ceiling**2 + 2 * COMFORT_BRAKE * 0.8 * room).min(axis=1)
    return Paths(x, y, yaw, distance), np.array(bends), desired


def _drop_ignored(drivers: list[Driver], road_users: RoadUsers, close: NDArray[np.bool_]) -> None:
    """Clear the pairs that a driver's settings tell it to ignore."""
    for number, driver in enumerate(drivers):
        settings = driver.settings
        if settings.not_avoided:
            close[number] &= ~np.isin(road_users.owners, list(settings.not_avoided))
        if settings.ignore_vehicles > 0 and 100 * driver.random.random() < settings.ignore_vehicles:
            close[number, : road_users.first_walker] = False
        if settings.ignore_walkers > 0 and 100 * driver.random.random() < settings.ignore_walkers:
            close[number, road_users.first_walker :] = False


def _steering(active: ActiveDrivers, motion: Motion, bends: Floats) -> Floats:
    """Shares of the steering lock: follow the path's curvature and correct any offset within a few metres."""
    heading = np.array([driver.heading for driver in active.drivers])
    aside = np.array([driver.aside for driver in active.drivers])
    wanted_aside, slope = active.targets.offset.copy(), np.zeros(len(aside))
    for number, driver in enumerate(active.drivers):
        if driver.changing:
            here, soon = driver.lateral_shift(np.array([0.0, 1.0])).tolist()
            wanted_aside[number] += here
            slope[number] = soon - here
    astray = (motion.yaw - heading - slope + pi) % (2 * pi) - pi
    reach = 1.8 + 0.45 * np.abs(motion.speed)
    wanted = bends - 2.0 * astray / reach - (aside - wanted_aside) / reach**2
    traits = active.traits
    wheels = np.arctan(np.clip(wanted * traits.wheelbase, -1.8, 1.8))
    shares: Floats = np.clip(wheels / steering_locks(traits.steering_lock, motion.speed), -1.0, 1.0)
    return shares


def _pedals(traits: VehicleTraits, speeds: Floats, acceleration: Floats) -> tuple[Floats, Floats]:
    """Throttle and brake that give the accelerations."""
    # plain numbers, as in the physics: NumPy rounds their squares differently
    left = [1.0 - (speed / top) ** 2 for speed, top in zip(speeds.tolist(), traits.top_speed, strict=True)]
    at_full_throttle = traits.acceleration * left
    throttle = np.minimum(1.0, (acceleration + 0.15 + 0.0006 * speeds**2) / np.maximum(at_full_throttle, 0.1))
    brake = np.clip((-acceleration - 0.45) / FULL_BRAKE, 0.0, 1.0)
    standing = np.where(np.abs(speeds) < 0.15, 1.0, brake)
    return np.where(acceleration > 0.0, throttle, 0.0), np.where(acceleration > 0.0, 0.0, standing)


def _free_road(speeds: Floats, desired: Floats, free_acceleration: Floats) -> Floats:
    """Acceleration towards the desired speed when nothing is in the way."""
    faster = free_acceleration * (1.0 - (speeds / np.maximum(desired, 0.5)) ** 4)
    slower = np.maximum(2.0 * (desired - speeds), -1.6 * COMFORT_BRAKE)
    return np.where(speeds > desired, slower, faster)


def _stop_within(gap: float, speed: float) -> float:
    """Deceleration that ends at the stop line."""
    if gap <= 0.3:
        return EMERGENCY_BRAKE if speed > 0.5 else -2.0
    if speed < 0.3 and gap > 1.5:
        return 0.6
    return max(EMERGENCY_BRAKE, -(speed**2) / (2.0 * gap) * 1.05)


_SAMPLE_DISTANCES = SPACING * np.arange(SAMPLES)
