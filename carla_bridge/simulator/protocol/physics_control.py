"""A vehicle's physics as CARLA's VehiclePhysicsControl."""

from math import cos, radians, sin
from typing import Any

from carla_bridge.simulator.actors.actor import Vehicle
from carla_bridge.simulator.actors.physics import FULL_BRAKE, HAND_BRAKE
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol import wire

MASS, WHEELS = 11, 15
"""Places in the 17 fields."""
POSITION = 9
"""The last of a wheel's ten fields."""
WHEEL_COUNT = 4
"""Of every vehicle: CARLA's two-wheelers have four in its physics too."""
MOST_ITEMS = 256
"""The longest curve or list of gears that a client may set."""


def physics_control(vehicle: Vehicle) -> list[object]:
    """The 17 fields, as a client has set them or as the model has them; the wheels are where the vehicle is."""
    if vehicle.physics is None:
        return list(_of_model(vehicle))
    control = list(vehicle.physics)
    wheels = zip(control[WHEELS], _wheel_positions(vehicle), strict=True)
    control[WHEELS] = [[*wheel[:POSITION], place] for wheel, place in wheels]
    return control


def set_physics_control(vehicle: Vehicle, control: Any) -> None:
    """Keep all fields for `physics_control`; of them the simple model here uses the mass only."""
    checked = _like(control, _of_model(vehicle), "physics control")
    if len(checked[WHEELS]) != WHEEL_COUNT:
        raise RefusedError(f"physics control must have {WHEEL_COUNT} wheels, not {len(checked[WHEELS])}")
    if checked[MASS] <= 0.0:
        raise RefusedError(f"a vehicle's mass must be above 0 kg, not {checked[MASS]:g}")
    vehicle.physics, vehicle.mass = checked, checked[MASS]


def _of_model(vehicle: Vehicle) -> tuple[Any, ...]:
    """What has fields is a tuple, and what can have any length a list, so that `_like` can tell them apart."""
    model = vehicle.model
    wheels: list[tuple[Any, ...]] = []
    for number, place in enumerate(_wheel_positions(vehicle)):
        lock = model.max_steer if number < 2 else 0.0
        brake, hand_brake = 1500.0 * FULL_BRAKE / 8, 3000.0 * HAND_BRAKE / 5
        wheels.append((3.0, 0.25, lock, 34.0, brake, hand_brake, 2.0, 17.0, 1000.0, place))
    gears = [(ratio, 0.5, 0.65) for ratio in (4.17, 2.34, 1.52, 1.14, 0.87)]
    return (
        [(0.0, 400.0), (5000.0, 500.0)],
        5000.0,
        1.0,
        0.15,
        2.0,
        0.35,
        True,
        0.2,
        10.0,
        4.0,
        gears,
        model.mass,
        0.3,
        (0.0, 0.0, 0.0),
        [(0.0, 1.0), (45.0, 0.35)],
        wheels,
        False,
    )


def _wheel_positions(vehicle: Vehicle) -> list[tuple[float, float, float]]:
    """Front left, front right, rear left and rear right, in centimetres, as CARLA gives them."""
    half, wide = vehicle.model.wheelbase / 2, vehicle.model.extent[1] * 0.85
    c, s = cos(radians(vehicle.pose.yaw)), sin(radians(vehicle.pose.yaw))
    return [
        (100 * (vehicle.pose.x + c * ahead - s * aside), 100 * (vehicle.pose.y + s * ahead + c * aside), 34.0)
        for ahead, aside in ((half, -wide), (half, wide), (-half, -wide), (-half, wide))
    ]


def _like(value: Any, pattern: Any, what: str) -> Any:
    """The value if it has the pattern's shape: a tuple stands for its fields, a list for any number of such items."""
    if isinstance(pattern, bool):
        return wire.flag(value, what)
    if isinstance(pattern, float):
        return wire.number(value, what)
    if isinstance(pattern, tuple):
        return tuple(_like(*pair, what) for pair in zip(wire.items(value, what, len(pattern)), pattern, strict=False))
    given = wire.items(value, what)
    if len(given) > MOST_ITEMS:
        raise RefusedError(f"{what} has a list of {len(given)} items: {MOST_ITEMS} are the most that are kept")
    return [_like(item, pattern[0], what) for item in given]
