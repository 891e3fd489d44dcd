"""How vehicles answer throttle, steering and brake: a kinematic bicycle with limited grip."""

from dataclasses import replace
from math import atan, copysign, cos, degrees, exp, hypot, radians, sin, tan

from carla_bridge.simulator.actors import ZERO, Vector, Vehicle
from carla_bridge.simulator.posing import wrap
from carla_bridge.simulator.scene import Pose

FULL_BRAKE = 8.0
HAND_BRAKE = 5.0
ROLLING = 0.15
AIR_DRAG = 0.0006
GRIP = 7.5
"""Largest acceleration across the direction of travel, m/s²."""
STEERING_RATE = 4.0
"""Radians per second of the front wheels."""
LONGEST_STEP = 0.05


def steering_lock(vehicle: Vehicle) -> float:
    """The largest angle of the front wheels at the present speed, in radians."""
    fade = max(0.35, 1.0 - abs(vehicle.speed) / 45.0)
    return radians(vehicle.model.max_steer) * fade


def step_vehicle(vehicle: Vehicle, dt: float) -> None:
    """Advance one vehicle by `dt` seconds, in pieces short enough to stay smooth."""
    before = vehicle.velocity
    yaw_before = vehicle.pose.yaw
    if not vehicle.simulates_physics:
        vehicle.velocity = vehicle.angular_velocity = vehicle.acceleration = ZERO
        vehicle.speed = vehicle.sideways = 0.0
        return
    pieces = max(1, -int(-dt // LONGEST_STEP))
    for _ in range(pieces):
        _advance(vehicle, dt / pieces)
    ax, ay = (vehicle.velocity[0] - before[0]) / dt, (vehicle.velocity[1] - before[1]) / dt
    vehicle.acceleration = (ax, ay, 0.0)
    vehicle.angular_velocity = (0.0, 0.0, wrap(vehicle.pose.yaw - yaw_before) / dt)


def _advance(vehicle: Vehicle, dt: float) -> None:
    pose = vehicle.pose
    yaw = radians(pose.yaw)
    if vehicle.constant_velocity is not None:
        ahead, aside, _ = vehicle.constant_velocity
        vehicle.speed, vehicle.sideways = ahead, aside
    else:
        vehicle.speed = _new_speed(vehicle, dt)
        vehicle.sideways *= exp(-4.0 * dt)
    _turn_wheels(vehicle, dt)
    speed, base = vehicle.speed, vehicle.model.wheelbase
    slip = atan(0.5 * tan(vehicle.steering))
    rate = speed * cos(slip) * tan(vehicle.steering) / base
    if abs(rate * speed) > GRIP:
        rate = copysign(GRIP / abs(speed), rate)
        slip = atan(0.5 * base * rate / max(abs(speed), 0.1)) * copysign(1.0, speed)
    heading = yaw + slip + rate * dt / 2
    vx = speed * cos(heading) - vehicle.sideways * sin(yaw)
    vy = speed * sin(heading) + vehicle.sideways * cos(yaw)
    vehicle.velocity = (vx, vy, 0.0)
    vehicle.travelled += speed * dt
    vehicle.pose = Pose(pose.x + vx * dt, pose.y + vy * dt, 0.0, 0.0, wrap(pose.yaw + degrees(rate * dt)), 0.0)


def _new_speed(vehicle: Vehicle, dt: float) -> float:
    speed, model, control = vehicle.speed, vehicle.model, vehicle.control
    if vehicle.ackermann is not None:
        wanted = vehicle.ackermann[1]
        change = max(-FULL_BRAKE, min(model.acceleration, 2.0 * (wanted - speed)))
        return speed + change * dt
    push = control.throttle * model.acceleration * max(0.0, 1.0 - (speed / model.top_speed) ** 2)
    moving = speed + (-push if control.reverse else push) * dt
    drag = ROLLING if control.throttle > 0 else 3 * ROLLING
    resistance = control.brake * FULL_BRAKE + drag + AIR_DRAG * speed * speed
    resistance += HAND_BRAKE if control.hand_brake else 0.0
    loss = resistance * dt
    if control.throttle > 0 and not control.brake and not control.hand_brake:
        loss = min(loss, abs(moving) * 0.5)
    return 0.0 if abs(moving) <= loss else moving - copysign(loss, moving)


def _turn_wheels(vehicle: Vehicle, dt: float) -> None:
    lock = steering_lock(vehicle)
    wanted = vehicle.control.steer * lock
    if vehicle.ackermann is not None:
        wanted = max(-lock, min(lock, vehicle.ackermann[0]))
    change = max(-STEERING_RATE * dt, min(STEERING_RATE * dt, wanted - vehicle.steering))
    vehicle.steering += change


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


def stop_dead(vehicle: Vehicle, at: Pose) -> None:
    """Put the vehicle back where it was before it hit something, at rest."""
    vehicle.pose = replace(at)
    vehicle.speed = vehicle.sideways = 0.0
    vehicle.velocity = vehicle.angular_velocity = ZERO


def speed_of(velocity: Vector) -> float:
    return hypot(velocity[0], velocity[1])
