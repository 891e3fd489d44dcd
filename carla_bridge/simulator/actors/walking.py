"""How walkers move: by their control, or wherever the client's navigation puts them."""

from math import atan2, degrees, hypot

from carla_bridge.simulator.actors.actor import ZERO, Walker
from carla_bridge.simulator.scene import Pose

STRIDE = 1.35
"""Metres per full cycle of the legs, for an adult."""


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
    """What the client's crowd simulation says: a pose on the ground and a speed."""
    walker.pose = Pose(pose.x, pose.y, walker.extent[2], 0.0, pose.yaw, 0.0)
    fx, fy = walker.forward
    walker.velocity = (fx * speed, fy * speed, 0.0)
    walker.steered = True
