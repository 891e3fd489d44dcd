"""Autopilot traffic: all drivers look ahead, keep their distance, obey the lights and stay in their lanes.

What is costly is done for all drivers at once: each driver's path is a row of samples, everything that could be
in somebody's way is a row of discs, and for every close pair the nearest sample tells how far along the path and
how far aside the disc is.
"""

from dataclasses import dataclass
from math import pi, radians

import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.actors import TrafficLight, Vehicle, VehicleControl, Walker
from carla_bridge.simulator.crossing import CrossingGuard
from carla_bridge.simulator.driver import LOST, Driver, DriverSettings
from carla_bridge.simulator.lane_changes import LaneChanges
from carla_bridge.simulator.path import Floats
from carla_bridge.simulator.physics import FULL_BRAKE, steering_locks
from carla_bridge.simulator.road_network import LaneId, RoadNetwork
from carla_bridge.simulator.signals import STOP_LINE

SAMPLES, STRIDE = 46, 2
SPACING = 2.0
NEAR = 12
"""Rows of the route among which a vehicle's rear axle is looked for."""
SIDE_MARGIN = 0.35
"""Metres beside the vehicle that should stay free."""
COMFORT_BRAKE = 2.2
"""m/s² along the road that drivers plan with."""
HEADWAY = 1.1
STANDSTILL = 2.0
PANIC = -FULL_BRAKE
AT_LIGHT = STOP_LINE + 6.0
"""Metres before the end of the lane within which a vehicle counts as being at the light."""


@dataclass
class General:
    """Settings of the traffic manager for all its vehicles, in every episode."""

    seed: int
    speed_difference: float = 0.0
    lane_offset: float = 0.0
    distance: float = 0.0


class Traffic:
    """All autopilots of an episode."""

    def __init__(self, network: RoadNetwork, lights: list[TrafficLight], general: General) -> None:
        self.general = general
        self._network = network
        self._lights: dict[LaneId, TrafficLight] = {lane: light for light in lights for lane in light.signal.lanes}
        self._registered = 0
        self._frame = 0
        self.drivers: dict[int, Driver] = {}
        self._settings: dict[int, DriverSettings] = {}
        self._guard = CrossingGuard(self._lights)
        self._lane_changes = LaneChanges()

    def reseed(self, seed: int) -> None:
        """Make the future of all drivers depend on this seed."""
        self.general.seed = seed
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
        """Settings may be made before the vehicle has a driver."""
        return self._settings.setdefault(vehicle.id, DriverSettings())

    def unregister(self, vehicle: Vehicle) -> None:
        vehicle.autopilot = False
        if self.drivers.pop(vehicle.id, None) is not None:
            self._guard.forget(vehicle.id)

    def forget(self, vehicle: Vehicle) -> None:
        """The vehicle is gone for good."""
        self.unregister(vehicle)
        self._settings.pop(vehicle.id, None)

    def relocate(self, vehicle: Vehicle) -> None:
        """Somebody moved the vehicle: its driver has to find out where it is."""
        driver = self.drivers.get(vehicle.id)
        if driver is not None:
            self._guard.forget(vehicle.id)
            driver.find_lane()

    def step(self, vehicles: list[Vehicle], walkers: list[Walker], dt: float) -> None:
        """Set the controls of every autopilot vehicle, and what every vehicle knows of limits and lights."""
        self._frame += 1
        for vehicle in vehicles:
            if not vehicle.autopilot:
                self._inform(vehicle)
        drivers = [driver for driver in self.drivers.values() if driver.vehicle.simulates_physics]
        if not drivers:
            return
        locate(drivers)
        self._lane_changes.consider(drivers, vehicles, self._frame, dt)
        paths, distances, desired = self._look_ahead(drivers)
        speeds = np.array([driver.vehicle.speed for driver in drivers])
        acceleration = _free_road(speeds, desired, drivers)
        self._keep_distance(drivers, paths, distances, speeds, vehicles, walkers, acceleration)
        for number, (driver, gap) in enumerate(zip(drivers, self._guard.gaps(drivers), strict=True)):
            if gap is not None:
                wanted = _stop_within(gap, driver.vehicle.speed)
                acceleration[number] = min(acceleration[number], wanted)
        self._steer(drivers, speeds, acceleration)

    def _next_random(self) -> np.random.Generator:
        self._registered += 1
        return np.random.default_rng([self.general.seed, self._registered])

    def _inform(self, vehicle: Vehicle) -> None:
        pose = vehicle.pose
        lane, s, aside = self._network.nearest(pose.x, pose.y, radians(pose.yaw))
        if aside < 3.0:
            vehicle.speed_limit = lane.speed_limit
        near = lane.length - s - vehicle.extent[0] < AT_LIGHT and aside < 2.0
        vehicle.waits_at = self._lights.get(lane.id) if near else None

    def _look_ahead(self, drivers: list[Driver]) -> tuple[Floats, Floats, Floats]:
        """Paths (n, samples, 6), distances to the samples (n, samples), and the speed to aim for (n)."""
        paths = np.empty((len(drivers), SAMPLES, 6))
        first = [driver.ahead(SAMPLES, STRIDE, path) for driver, path in zip(drivers, paths, strict=True)]
        paths[:, :, 4] *= np.array([self._share_of_limit(driver) for driver in drivers])[:, None]
        for number, driver in enumerate(drivers):
            cap = driver.settings.desired_speed
            if cap is not None:
                paths[number, :, 4] = cap / 3.6
        distances = np.array(first)[:, None] + SPACING * np.arange(SAMPLES)
        for number, driver in enumerate(drivers):
            offset: Floats | float = driver.offset(self.general.lane_offset)
            if driver.changing:
                offset = offset + driver.gliding(distances[number])
            if driver.changing or offset:
                paths[number, :, 0] -= offset * np.sin(paths[number, :, 2])
                paths[number, :, 1] += offset * np.cos(paths[number, :, 2])
        ceiling = np.minimum(paths[:, :, 4], paths[:, :, 5])
        room = np.maximum(distances - 1.0, 0.0)
        desired = np.sqrt(ceiling**2 + 2 * COMFORT_BRAKE * 0.8 * room).min(axis=1)
        return paths, distances, desired

    def _share_of_limit(self, driver: Driver) -> float:
        own = driver.settings.speed_difference
        difference = self.general.speed_difference if own is None else own
        model = driver.vehicle.model
        heavy = 0.9 if model.mass > 5000 else 1.0
        return max(0.0, 1.0 - difference / 100.0) * driver.temper * heavy

    def _keep_distance(
        self,
        drivers: list[Driver],
        paths: Floats,
        distances: Floats,
        speeds: Floats,
        vehicles: list[Vehicle],
        walkers: list[Walker],
        acceleration: Floats,
    ) -> None:
        """Lower the accelerations so that nobody runs into what is on its path."""
        discs, owners = _discs(vehicles, walkers)
        here = np.array([(d.vehicle.pose.x, d.vehicle.pose.y) for d in drivers])
        half = np.array([d.vehicle.extent[:2] for d in drivers])
        own = np.array([d.vehicle.id for d in drivers])
        reach = 14.0 + 2.2 * speeds + speeds**2 / (2 * COMFORT_BRAKE)
        dx, dy = discs[:, 0] - here[:, :1], discs[:, 1] - here[:, 1:]
        close = dx * dx + dy * dy < np.minimum(reach, SPACING * SAMPLES)[:, None] ** 2
        close &= own[:, None] != owners[None, :]
        self._excuse(drivers, owners, len(walkers), close)
        who, what = np.nonzero(close)
        if not len(who):
            return
        dx = discs[what, 0, None] - paths[who, :, 0]
        dy = discs[what, 1, None] - paths[who, :, 1]
        nearest = (dx * dx + dy * dy).argmin(axis=1)
        row = np.arange(len(who))
        yaw = paths[who, nearest, 2]
        c, s = np.cos(yaw), np.sin(yaw)
        dx, dy = dx[row, nearest], dy[row, nearest]
        along, aside = dx * c + dy * s, np.abs(-dx * s + dy * c)
        distance = distances[who, nearest] + along
        room = distance - half[who, 0] - discs[what, 2]
        blocking = (aside < half[who, 1] + discs[what, 2] + SIDE_MARGIN) & (distance > 0.0)
        blocking &= np.abs(along) < SPACING + 0.5
        who, what, room = who[blocking], what[blocking], room[blocking]
        theirs = (discs[what, 3] * c[blocking] + discs[what, 4] * s[blocking]).clip(min=0.0)
        wished = np.array([self._distance(driver) for driver in drivers])
        np.minimum.at(acceleration, who, _follow(room, speeds[who], theirs, wished[who]))

    def _distance(self, driver: Driver) -> float:
        own = driver.settings.distance
        return STANDSTILL + max(0.0, self.general.distance if own is None else own)

    @staticmethod
    def _excuse(drivers: list[Driver], owners: NDArray[np.int64], walkers: int, close: NDArray[np.bool_]) -> None:
        """Take out what a driver was told to ignore."""
        for number, driver in enumerate(drivers):
            settings = driver.settings
            if settings.not_avoided:
                close[number] &= ~np.isin(owners, list(settings.not_avoided))
            if settings.ignore_vehicles > 0 and 100 * driver.random.random() < settings.ignore_vehicles:
                close[number, : len(owners) - walkers] = False
            if settings.ignore_walkers > 0 and 100 * driver.random.random() < settings.ignore_walkers:
                close[number, len(owners) - walkers :] = False

    def _steer(self, drivers: list[Driver], speeds: Floats, acceleration: Floats) -> None:
        """Follow the path's curvature, and pull back what is off in place and heading within a few metres."""
        table = []
        for driver in drivers:
            vehicle = driver.vehicle
            aside, slope = driver.offset(self.general.lane_offset), 0.0
            if driver.changing:
                here, soon = driver.gliding(np.array([0.0, 1.0])).tolist()
                aside, slope = aside + here, soon - here
            turn = radians(vehicle.pose.yaw) - driver.heading - slope
            bend = driver.bend(0.15 * vehicle.speed)
            table.append((turn, driver.aside - aside, bend, vehicle.model.wheelbase, *pedals_of(vehicle)))
        rows = np.array(table)
        astray = (rows[:, 0] + pi) % (2 * pi) - pi
        reach = 1.8 + 0.45 * np.abs(speeds)
        wanted = rows[:, 2] - 2.0 * astray / reach - rows[:, 1] / reach**2
        wheels = np.arctan(np.clip(wanted * rows[:, 3], -1.8, 1.8)) / steering_locks(rows[:, 4], speeds)
        steer = np.clip(wheels, -1.0, 1.0).tolist()
        throttle = np.minimum(1.0, (acceleration + 0.15 + 0.0006 * speeds**2) / np.maximum(rows[:, 5], 0.1))
        brake = np.clip((-acceleration - 0.45) / FULL_BRAKE, 0.0, 1.0)
        throttle = np.where(acceleration > 0.0, throttle, 0.0).tolist()
        standing = np.where(np.abs(speeds) < 0.15, 1.0, brake)
        brake = np.where(acceleration > 0.0, 0.0, standing).tolist()
        for number, driver in enumerate(drivers):
            vehicle, lane = driver.vehicle, driver.lane
            gear = 1 + min(5, int(abs(vehicle.speed) / 7.0))
            vehicle.control = VehicleControl(throttle[number], steer[number], brake[number], gear=gear)
            vehicle.speed_limit = lane.speed_limit
            near = lane.length - driver.s - vehicle.extent[0] < AT_LIGHT
            vehicle.waits_at = self._lights.get(lane.id) if near else None


def locate(drivers: list[Driver]) -> None:
    """Find out how far every vehicle has come along its route; the rear axle is what follows the path."""
    near = np.empty((len(drivers), NEAR, 6))
    here = np.empty((len(drivers), 2))
    for number, driver in enumerate(drivers):
        driver.near(near[number])
        vehicle = driver.vehicle
        fx, fy = vehicle.forward
        back = vehicle.model.wheelbase / 2
        here[number] = vehicle.pose.x - back * fx, vehicle.pose.y - back * fy
    dx, dy = near[:, :, 0] - here[:, :1], near[:, :, 1] - here[:, 1:]
    gap = dx * dx + dy * dy
    best = gap.argmin(axis=1)
    row = np.arange(len(drivers))
    yaw, bend = near[row, best, 2], near[row, best, 3]
    dx, dy = here[:, 0] - near[row, best, 0], here[:, 1] - near[row, best, 1]
    c, s = np.cos(yaw), np.sin(yaw)
    along = dx * c + dy * s
    aside = dy * c - dx * s - bend * along * along / 2
    lost = gap[row, best] > LOST * LOST
    columns = (column.tolist() for column in (lost, best, along, aside, yaw + bend * along))
    for driver, is_lost, *place in zip(drivers, *columns, strict=True):
        if is_lost:
            driver.find_lane()
        else:
            driver.arrive(*place)


def pedals_of(vehicle: Vehicle) -> tuple[float, float]:
    """Steering lock at rest in radians, and the acceleration that full throttle gives now."""
    model = vehicle.model
    return radians(model.max_steer), model.acceleration * (1.0 - (vehicle.speed / model.top_speed) ** 2)


def _discs(vehicles: list[Vehicle], walkers: list[Walker]) -> tuple[Floats, NDArray[np.int64]]:
    """Rows of x, y, radius, velocity x, velocity y; vehicles are three discs in a row. And whose they are."""
    bodies = [(v.pose.x, v.pose.y, v.extent[1], *v.velocity) for v in vehicles]
    rows = np.repeat(np.array(bodies).reshape(-1, 6)[:, :5], 3, axis=0)
    shape = np.array([(*v.extent[:2], *v.forward) for v in vehicles]).reshape(-1, 4)
    shift = np.maximum(shape[:, :1] - shape[:, 1:2], 0.0) * shape[:, 2:]
    rows[0::3, :2] -= shift
    rows[2::3, :2] += shift
    people = [(w.pose.x, w.pose.y, 0.35, *w.velocity[:2]) for w in walkers]
    owners = [vehicle.id for vehicle in vehicles for _ in range(3)] + [walker.id for walker in walkers]
    return np.concatenate([rows, np.array(people).reshape(-1, 5)]), np.array(owners, dtype=np.int64)


def _free_road(speeds: Floats, desired: Floats, drivers: list[Driver]) -> Floats:
    """Acceleration towards the desired speed when nothing is in the way."""
    strength = np.array([min(2.4, 0.6 * driver.vehicle.model.acceleration) for driver in drivers])
    faster = strength * (1.0 - (speeds / np.maximum(desired, 0.5)) ** 4)
    slower = np.maximum(2.0 * (desired - speeds), -1.6 * COMFORT_BRAKE)
    return np.where(speeds > desired, slower, faster)


def _follow(room: Floats, speed: Floats, theirs: Floats, wished: Floats) -> Floats:
    """The intelligent driver model's interaction term."""
    dynamic = speed * HEADWAY + speed * (speed - theirs) / (2 * np.sqrt(2.0 * COMFORT_BRAKE))
    needed = wished + np.maximum(0.0, dynamic)
    free = np.maximum(room, 0.1)
    result = 2.0 * (1.0 - (needed / free) ** 2)
    stopping = speed**2 / (2 * np.maximum(room - 0.8, 0.1))
    result = np.where((theirs < 0.5) & (stopping > 0.7 * FULL_BRAKE), PANIC, result)
    return np.where(room < 0.6, PANIC, np.maximum(result, PANIC))


def _stop_within(gap: float, speed: float) -> float:
    """Deceleration that ends at the stop line."""
    if gap <= 0.3:
        return PANIC if speed > 0.5 else -2.0
    if speed < 0.3 and gap > 1.5:
        return 0.6
    return max(PANIC, -(speed**2) / (2.0 * gap) * 1.05)
