"""Which drivers may enter a junction: on green, with no crossing traffic, and with room to leave it again."""

from collections.abc import Sequence
from dataclasses import dataclass

from carla_bridge.simulator.actors.actor import GREEN, OFF, YELLOW, TrafficLight
from carla_bridge.simulator.town.road_network import Lane, LaneId
from carla_bridge.simulator.town.road_signals import STOP_LINE
from carla_bridge.simulator.traffic.driver import Driver

FIRM_BRAKE = 3.2
"""Deceleration in m/s² that a driver accepts to stop at yellow."""
LONG = 3.5
"""Half the length above which a vehicle needs more than its lane in a tight bend."""


@dataclass(frozen=True)
class JunctionPermit:
    """A way through a junction that a driver may take."""

    way: Lane
    sweeps: bool
    """Whether the vehicle leaves its lane in the bend."""

    @classmethod
    def for_driver(cls, driver: Driver, way: Lane) -> "JunctionPermit":
        return cls(way, driver.vehicle.extent[0] > LONG and way.is_tight)

    def excludes(self, other: "JunctionPermit") -> bool:
        """Crossing ways exclude each other; a sweeping vehicle excludes all that come from another approach."""
        if other.way in self.way.conflicts:
            return True
        return (
            (self.sweeps or other.sweeps)
            and self.way.junction == other.way.junction
            and _approach(self.way) != _approach(other.way)
        )


class JunctionPermits:
    """Reserves ways through junctions: one permit per driver, and never two that cross."""

    def __init__(self, lights: dict[LaneId, TrafficLight]) -> None:
        self._lights = lights
        self._held: dict[int, JunctionPermit] = {}

    def forget(self, vehicle: int) -> None:
        self._held.pop(vehicle, None)

    def gaps(self, drivers: Sequence[Driver]) -> list[float | None]:
        """For each driver the distance to the stop line; None if it need not stop."""
        self._release(drivers)
        result: list[float | None] = [None] * len(drivers)
        waiting: list[tuple[float, int]] = []
        for number, driver in enumerate(drivers):
            if driver.turn is not None:
                gap = driver.lane.length - driver.s - driver.vehicle.extent[0] - STOP_LINE - 0.3
                if gap < _notice(driver):
                    waiting.append((gap, number))
        tails = _tails(drivers) if waiting else {}
        for gap, number in sorted(waiting):
            driver = drivers[number]
            if not self._may_enter(driver, gap, tails):
                self.forget(driver.vehicle.id)
                result[number] = gap
        return result

    def _may_enter(self, driver: Driver, gap: float, tails: dict[int, float]) -> bool:
        turn = driver.route[1]
        beyond_line = gap < -1.0
        if not beyond_line and not self._light_allows(driver, gap):
            return False
        mine = self._held.get(driver.vehicle.id)
        if mine is not None:
            if mine.way is turn:
                return True
            self.forget(driver.vehicle.id)
        wanted = JunctionPermit.for_driver(driver, turn)
        if any(wanted.excludes(other) for other in self._held.values()):
            return False
        length = 2 * driver.vehicle.extent[0]
        exit_lane = driver.route[2] if len(driver.route) > 2 else None
        if exit_lane is not None and tails.get(exit_lane.index, 1e9) < length + 3.0:
            return False
        self._held[driver.vehicle.id] = wanted
        return True

    def _light_allows(self, driver: Driver, gap: float) -> bool:
        light = self._lights.get(driver.lane.id)
        if light is None or light.state in (GREEN, OFF):
            return True
        if light.state == YELLOW and driver.vehicle.speed**2 / (2 * FIRM_BRAKE) > max(gap, 0.0):
            return True
        ignores = driver.settings.ignore_lights
        return ignores > 0 and 100 * driver.random.random() < ignores

    def _release(self, drivers: Sequence[Driver]) -> None:
        for driver in drivers:
            permit = self._held.get(driver.vehicle.id)
            if permit is None or driver.lane is permit.way or driver.turn is permit.way:
                continue
            if driver.s > driver.vehicle.extent[0] + 1.0 or permit.way not in driver.lane.predecessors:
                self.forget(driver.vehicle.id)


def _approach(way: Lane) -> int:
    """The road that leads to a way through a junction."""
    return way.predecessors[0].id[0]


def _notice(driver: Driver) -> float:
    """Distance to the stop line from which a driver asks for a permit."""
    speed = driver.vehicle.speed
    return 10.0 + speed + speed**2 / 4.0


def _tails(drivers: Sequence[Driver]) -> dict[int, float]:
    """The position of the rearmost slow vehicle's tail on each lane."""
    tails: dict[int, float] = {}
    for driver in drivers:
        if driver.vehicle.speed < 2.0:
            tail = driver.s - driver.vehicle.extent[0]
            tails[driver.lane.index] = min(tail, tails.get(driver.lane.index, 1e9))
    return tails
