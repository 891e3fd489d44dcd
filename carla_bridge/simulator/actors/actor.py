"""The state of everything that has an actor id; behaviour is in the other modules and in traffic."""

from dataclasses import dataclass, field
from math import cos, inf, radians, sin
from typing import Any

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.catalogue.vehicle_models import VehicleModel
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.town.road_signals import Signal

Vector = tuple[float, float, float]
ZERO: Vector = (0.0, 0.0, 0.0)
RED, YELLOW, GREEN, OFF = 0, 1, 2, 3


@dataclass(eq=False)
class Actor:
    """The state that all actors share; `attributes` are (id, type, value), from the client or the blueprint."""

    id: int
    blueprint: str
    pose: Pose
    attributes: tuple[tuple[str, int, str], ...] = ()
    parent: "Actor | None" = None
    mount: Pose | None = None
    """Pose relative to the parent."""
    velocity: Vector = ZERO
    angular_velocity: Vector = ZERO
    """Degrees per second."""
    acceleration: Vector = ZERO
    extent: Vector = ZERO
    box_centre: Vector = ZERO
    tag: Tag = Tag.NONE
    stream: int = 0
    """Stream id of a sensor that sends data; 0 for none."""

    @property
    def box(self) -> list[object]:
        """BoundingBox on the wire."""
        return [list(self.box_centre), list(self.extent), [0.0, 0.0, 0.0], self.id]

    @property
    def forward(self) -> tuple[float, float]:
        yaw = radians(self.pose.yaw)
        return cos(yaw), sin(yaw)


@dataclass
class VehicleControl:
    """CARLA's VehicleControl."""

    throttle: float = 0.0
    steer: float = 0.0
    brake: float = 0.0
    hand_brake: bool = False
    reverse: bool = False
    manual_gear_shift: bool = False
    gear: int = 0


@dataclass(eq=False)
class Vehicle(Actor):
    """A car, truck, bus, motorbike or bicycle."""

    model: VehicleModel = field(kw_only=True)
    colour: tuple[int, int, int] = (128, 128, 128)
    control: VehicleControl = field(default_factory=VehicleControl)
    ackermann: tuple[float, float] | None = None
    """Steering angle (radians) and speed that the Ackermann controller wants, while it drives."""
    speed: float = 0.0
    """Signed, along the vehicle's axis."""
    sideways: float = 0.0
    """Drift to the right after an impulse or a target velocity across the axis."""
    steering: float = 0.0
    """Angle of the front wheels in radians."""
    simulates_physics: bool = True
    collides: bool = True
    constant_velocity: Vector | None = None
    """In the vehicle's own frame."""
    lights: int = 0
    autopilot: bool = False
    sticky: bool = True
    """A control stays until the next one; otherwise it holds for one tick."""
    mass: float = field(init=False)
    """Kilograms: the model's until a client sets another."""
    physics: tuple[Any, ...] | None = None
    """CARLA's VehiclePhysicsControl as a client has set it; None for the model's own."""
    speed_limit: float = 30.0
    waits_at: "TrafficLight | None" = None
    travelled: float = 0.0
    """Metres, for the wheels of two-wheelers."""

    def __post_init__(self) -> None:
        self.mass = self.model.mass


@dataclass
class WalkerControl:
    """CARLA's WalkerControl."""

    direction: Vector = (1.0, 0.0, 0.0)
    speed: float = 0.0
    jump: bool = False


@dataclass(eq=False)
class Walker(Actor):
    """A pedestrian. Its pose is the middle of the body, as in CARLA."""

    control: WalkerControl = field(default_factory=WalkerControl)
    simulates_physics: bool = True
    collides: bool = True
    steered: bool = False
    """The client's navigation moved it in this tick."""
    gait: float = 0.0
    colour: tuple[int, int, int] = (128, 128, 128)


@dataclass(eq=False)
class Sensor(Actor):
    """Cameras, GNSS, IMU, collision."""

    settings: dict[str, str] = field(default_factory=dict)
    period: float = 0.0
    next_due: float = -inf
    """Simulated second of the next reading; periods count from the first reading that a client receives."""


@dataclass(eq=False)
class TrafficLight(Actor):
    """One light of a junction's group."""

    signal: Signal = field(kw_only=True)
    state: int = RED
    green_time: float = 10.0
    yellow_time: float = 3.0
    red_time: float = 2.0
    elapsed: float = 0.0
    frozen: bool = False
    pole: int = 0


@dataclass(eq=False)
class TrafficSign(Actor):
    """A speed limit."""

    signal: Signal = field(kw_only=True)
