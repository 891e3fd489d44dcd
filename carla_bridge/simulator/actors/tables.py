"""Arrays from rows of plain numbers, and the renderer's table of everything that moves."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from carla_bridge.simulator.actors.actor import Vehicle, Walker
from carla_bridge.simulator.scene import MovingObject, MovingObjects
from carla_bridge.simulator.town.path import Floats

BRAKE_LIGHTS = 0x8
BRAKES_SHOW = 0.05
"""Share of the brake above which the brake lights are on."""
WHEEL_RADIUS = 0.34


def table(rows: Sequence[Iterable[float]], width: int) -> Floats:
    """An (n, width) array; np.array on a list of tuples takes twice as long, because it reads everything twice."""
    return np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width).reshape(-1, width)


class MovingTable:
    """Rows for vehicles and walkers; the constant columns are written once."""

    def __init__(self, movers: Sequence[Vehicle | Walker]) -> None:
        looks = [MovingObject(a.id, a.blueprint, a.pose, a.extent, int(a.tag), a.colour) for a in movers]
        self._lasting = MovingObjects.of(looks)
        self._movers = movers
        self._vehicles = [actor for actor in movers if isinstance(actor, Vehicle)]
        self._walkers = [actor for actor in movers if isinstance(actor, Walker)]
        on_foot = np.array([isinstance(actor, Walker) for actor in movers], dtype=np.bool_)
        self._vehicle_rows, self._walker_rows = np.flatnonzero(~on_foot), np.flatnonzero(on_foot)

    def now(self) -> MovingObjects:
        """The table at this tick. Walkers are drawn upright, standing on the ground below their centre."""
        numbers = self._lasting.numbers.copy()
        numbers[:, 1:7] = table([actor.pose for actor in self._movers], 6)
        if self._walkers:
            rows = self._walker_rows
            numbers[rows, 3] -= numbers[rows, 9]
            numbers[rows, 4] = numbers[rows, 6] = 0.0
            numbers[rows, 14] = [walker.gait for walker in self._walkers]
        if self._vehicles:
            rows = self._vehicle_rows
            numbers[rows, 14] = np.array([vehicle.travelled for vehicle in self._vehicles]) / WHEEL_RADIUS
            numbers[rows, 15] = [_lights(vehicle) for vehicle in self._vehicles]
        return MovingObjects(self._lasting.blueprints, numbers)


def _lights(vehicle: Vehicle) -> int:
    return vehicle.lights | BRAKE_LIGHTS if vehicle.control.brake > BRAKES_SHOW else vehicle.lights
