"""A vehicle's physics as CARLA's VehiclePhysicsControl."""

from math import cos, radians, sin

from carla_bridge.simulator.actors.actor import Vehicle
from carla_bridge.simulator.actors.physics import FULL_BRAKE, HAND_BRAKE


def physics_control(vehicle: Vehicle) -> list[object]:
    """The 17 fields; the simple model here uses mass, wheel base and steering lock only."""
    model = vehicle.model
    half, wide = model.wheelbase / 2, model.extent[1] * 0.85
    c, s = cos(radians(vehicle.pose.yaw)), sin(radians(vehicle.pose.yaw))
    wheels: list[object] = []
    for ahead, aside in ((half, -wide), (half, wide), (-half, -wide), (-half, wide)):
        # CARLA gives wheel positions in centimetres
        place = [
            100 * (vehicle.pose.x + c * ahead - s * aside),
            100 * (vehicle.pose.y + s * ahead + c * aside),
            34.0,
        ]
        lock = model.max_steer if ahead > 0 else 0.0
        wheels.append(
            [3.0, 0.25, lock, 34.0, 1500.0 * FULL_BRAKE / 8, 3000.0 * HAND_BRAKE / 5, 2.0, 17.0, 1000.0, place]
        )
    gears: list[object] = [[ratio, 0.5, 0.65] for ratio in (4.17, 2.34, 1.52, 1.14, 0.87)]
    return [
        [[0.0, 400.0], [5000.0, 500.0]],
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
        [0.0, 0.0, 0.0],
        [[0.0, 1.0], [45.0, 0.35]],
        wheels[: model.wheels],
        False,
    ]
