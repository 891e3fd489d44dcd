"""How vehicles and walkers move.

A vehicle is a kinematic bicycle with limited grip; a walker follows its control or the client's navigation.
"""

from collections.abc import Sequence
from math import atan2, copysign, degrees, exp, hypot, radians

import numpy as np

from carla_bridge.simulator.actors.actor import ZERO, Vector, Vehicle, Walker
from carla_bridge.simulator.actors.posing import wrap
from carla_bridge.simulator.actors.tables import table
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.path import Floats

FULL_BRAKE = 8.0
HAND_BRAKE = 5.0
ROLLING = 0.15
AIR_DRAG = 0.0006
GRIP = 7.5
"""Largest acceleration across the direction of travel, m/s²."""
STEERING_RATE = 4.0
"""Radians per second of the front wheels."""
LONGEST_STEP = 0.05
"""Seconds; longer ticks are divided into equal pieces."""
STRIDE = 1.35
"""Metres per full cycle of the legs, for an adult."""


def steering_locks(at_rest: Floats, speeds: Floats) -> Floats:
    """The largest angles of the front wheels at the present speeds; faster vehicles steer less."""
    locks: Floats = at_rest * np.maximum(0.35, 1.0 - np.abs(speeds) / 45.0)
    return locks


def step_vehicles(vehicles: Sequence[Vehicle], dt: float) -> None:
    """Advance all vehicles by `dt` seconds, in pieces short enough to stay smooth."""
    moving = [vehicle for vehicle in vehicles if vehicle.simulates_physics]
    for vehicle in vehicles:
        if not vehicle.simulates_physics:
            vehicle.velocity = vehicle.angular_velocity = vehicle.acceleration = ZERO
            vehicle.speed = vehicle.sideways = 0.0
    if not moving:
        return
    before = [(vehicle.velocity, vehicle.pose.yaw) for vehicle in moving]
    pieces = max(1, -int(-dt // LONGEST_STEP))
    for _ in range(pieces):
        _advance(moving, dt / pieces)
    for vehicle, ((was_x, was_y, _), was_yaw) in zip(moving, before, strict=True):
        vx, vy, _ = vehicle.velocity
        vehicle.acceleration = ((vx - was_x) / dt, (vy - was_y) / dt, 0.0)
        vehicle.angular_velocity = (0.0, 0.0, wrap(vehicle.pose.yaw - was_yaw) / dt)


def _advance(vehicles: Sequence[Vehicle], dt: float) -> None:
    rows = []
    for vehicle in vehicles:
        if vehicle.constant_velocity is not None:
            vehicle.speed, vehicle.sideways, _ = vehicle.constant_velocity
        else:
            vehicle.speed = _new_speed(vehicle, dt)
            vehicle.sideways *= exp(-4.0 * dt) if vehicle.sideways else 0.0
        x, y, _, _, yaw_degrees, _ = vehicle.pose
        model, wanted = vehicle.model, vehicle.control.steer
        row = (vehicle.speed, vehicle.sideways, vehicle.steering, wanted, model.max_steer, model.wheelbase)
        rows.append((*row, x, y, radians(yaw_degrees)))
    speed, sideways, steering, wanted_share, lock, base, x, y, yaw = table(rows, 9).T.copy()
    locks = steering_locks(np.radians(lock), speed)
    wanted_angle = wanted_share * locks
    for number, vehicle in enumerate(vehicles):
        if vehicle.ackermann is not None:
            wanted_angle[number] = max(-locks[number], min(locks[number], vehicle.ackermann[0]))
    steering = steering + _within(wanted_angle - steering, STEERING_RATE * dt)
    tangent, pace = np.tan(steering), np.maximum(np.abs(speed), 0.1)
    slip = np.arctan(0.5 * tangent)
    rate = speed * np.cos(slip) * tangent / base
    fastest = GRIP / pace
    sliding = np.abs(rate) > fastest
    if sliding.any():
        rate = _within(rate, fastest)
        gripless = np.arctan(0.5 * base * rate / pace) * np.sign(speed)
        slip = np.where(sliding, gripless, slip)
    heading = yaw + slip + rate * dt / 2
    vx = speed * np.cos(heading) - sideways * np.sin(yaw)
    vy = speed * np.sin(heading) + sideways * np.cos(yaw)
    turned = (np.degrees(yaw + rate * dt) + 180.0) % 360.0 - 180.0
    results = np.array((steering, vx, vy, x + vx * dt, y + vy * dt, turned)).tolist()
    for vehicle, angle, east, south, new_x, new_y, new_yaw in zip(vehicles, *results, strict=True):
        vehicle.steering = angle
        vehicle.velocity = (east, south, 0.0)
        vehicle.travelled += vehicle.speed * dt
        vehicle.pose = Pose(new_x, new_y, 0.0, 0.0, new_yaw, 0.0)


def _within(values: Floats, bound: Floats | float) -> Floats:
    """The values, but none farther from zero than the bound."""
    bounded: Floats = np.minimum(np.maximum(values, -bound), bound)
    return bounded


def _new_speed(vehicle: Vehicle, dt: float) -> float:
    speed, model, control = vehicle.speed, vehicle.model, vehicle.control
    if vehicle.ackermann is not None:
        wanted = vehicle.ackermann[1]
        change = max(-FULL_BRAKE, min(model.acceleration, 2.0 * (wanted - speed)))
        return speed + change * dt
    push = control.throttle * model.acceleration * max(0.0, 1.0 - (speed / model.top_speed) ** 2)
    backwards = control.reverse or (control.manual_gear_shift and control.gear < 0)
    moving = speed + (-push if backwards else push) * dt
    drag = ROLLING if control.throttle > 0 else 3 * ROLLING
    resistance = control.brake * FULL_BRAKE + drag + AIR_DRAG * speed * speed
    resistance += HAND_BRAKE if control.hand_brake else 0.0
    loss = resistance * dt
    if control.throttle > 0 and not control.brake and not control.hand_brake:
        loss = min(loss, abs(moving) * 0.5)
    return 0.0 if abs(moving) <= loss else moving - copysign(loss, moving)


def set_velocity(vehicle: Vehicle, velocity: Vector) -> None:
    """Give the vehicle a velocity in world coordinates."""
    fx, fy = vehicle.forward
    vehicle.speed = velocity[0] * fx + velocity[1] * fy
    vehicle.sideways = -velocity[0] * fy + velocity[1] * fx
    vehicle.velocity = (velocity[0], velocity[1], 0.0)


def push(vehicle: Vehicle, change: Vector) -> None:
    """Change the velocity at once, as an impulse does."""
    vx, vy, _ = vehicle.velocity
    set_velocity(vehicle, (vx + change[0], vy + change[1], 0.0))


def stop_at(vehicle: Vehicle, at: Pose) -> None:
    """Put the vehicle back where it was before it hit something, at rest."""
    vehicle.pose = at
    vehicle.speed = vehicle.sideways = 0.0
    vehicle.velocity = vehicle.angular_velocity = ZERO


def step_walker(walker: Walker, dt: float) -> None:
    """Advance one walker by `dt` seconds."""
    if walker.steered:
        walker.steered = False
        speed = hypot(walker.velocity[0], walker.velocity[1])
    else:
        dx, dy, _ = walker.control.direction
        length = hypot(dx, dy)
        speed = walker.control.speed if length > 1e-6 else 0.0
        if speed > 0.0:
            vx, vy = dx / length * speed, dy / length * speed
            walker.velocity = (vx, vy, 0.0)
            yaw = degrees(atan2(vy, vx))
            walker.pose = Pose(walker.pose.x + vx * dt, walker.pose.y + vy * dt, walker.extent[2], 0.0, yaw, 0.0)
        else:
            walker.velocity = ZERO
            if walker.simulates_physics:
                walker.pose = walker.pose._replace(z=walker.extent[2])
    walker.gait = (walker.gait + speed * dt * 6.2832 / (STRIDE * walker.extent[2] / 0.9)) % 6.2832


def place_walker(walker: Walker, pose: Pose, speed: float) -> None:
    """Put a walker where the client's crowd simulation has it: a pose on the ground and a speed."""
    walker.pose = Pose(pose.x, pose.y, walker.extent[2], 0.0, pose.yaw, 0.0)
    fx, fy = walker.forward
    walker.velocity = (fx * speed, fy * speed, 0.0)
    walker.steered = True
