"""RPCs about actors. Each public method serves the RPC of its name."""

from math import degrees
from typing import Any

from carla_bridge.simulator.actors.actor import (
    OFF,
    Actor,
    TrafficLight,
    Vehicle,
    VehicleControl,
    Walker,
    WalkerControl,
)
from carla_bridge.simulator.actors.physics import place_walker, push, set_velocity
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol import wire
from carla_bridge.simulator.protocol.messages import actor_message
from carla_bridge.simulator.protocol.physics_control import physics_control, set_physics_control
from carla_bridge.simulator.scene import Pose
from carla_bridge.simulator.world import World

RIGID, SPRING_ARM, SPRING_ARM_GHOST = 0, 1, 2


class ActorMethods:
    """Spawning, destroying and steering."""

    def __init__(self, world: World, stream_port: int) -> None:
        self._world = world
        self._stream_port = stream_port

    def spawn_actor(self, description: Any, transform: Any) -> object:
        return self._message(spawn(self._world, description, transform, None, RIGID, ""))

    def spawn_actor_with_parent(
        self, description: Any, transform: Any, parent: Any, attachment: Any, socket: Any = ""
    ) -> object:
        return self._message(spawn(self._world, description, transform, parent, attachment, socket))

    def destroy_actor(self, number: Any) -> bool:
        return self._world.destroy(wire.whole(number, "actor id"))

    def get_actors_by_id(self, numbers: Any) -> object:
        wanted = [wire.whole(number, "actor id") for number in wire.items(numbers, "actor ids")]
        actors = self._world.actors
        return [self._message(actors[number]) for number in wanted if number in actors]

    def get_spectator(self) -> object:
        return self._message(self._world.spectator)

    def get_actor_bounding_box(self, number: Any) -> object:
        return self._actor(number).box

    def get_actor_name(self, number: Any) -> str:
        actor = self._actor(number)
        return f"{actor.blueprint}_{actor.id}"

    def get_actor_class_name(self, number: Any) -> str:
        return self._actor(number).blueprint

    def set_actor_transform(self, number: Any, transform: Any) -> None:
        actor, pose = self._actor(number), wire.pose(transform)
        if isinstance(actor, TrafficLight) or actor.blueprint.startswith("traffic."):
            raise RefusedError("traffic lights and signs cannot be moved")
        if actor.parent is not None:
            actor.mount = pose
        else:
            actor.pose = self._world.unwrapped(pose)
            if isinstance(actor, Vehicle):
                self._world.traffic.relocate(actor)

    def set_actor_location(self, number: Any, location: Any) -> None:
        x, y, z = wire.vector(location, "location")
        actor = self._actor(number)
        here = actor.pose if actor.mount is None else actor.mount
        turn = [here.pitch, here.yaw, here.roll]
        self.set_actor_transform(number, [[x, y, z], turn])

    def set_actor_simulate_physics(self, number: Any, enabled: Any) -> None:
        actor, wanted = self._actor(number), wire.flag(enabled, "simulate physics")
        if isinstance(actor, Vehicle | Walker):
            actor.simulates_physics = wanted

    def set_actor_collisions(self, number: Any, enabled: Any) -> None:
        actor, wanted = self._actor(number), wire.flag(enabled, "collisions")
        if isinstance(actor, Vehicle | Walker):
            actor.collides = wanted

    def set_actor_dead(self, number: Any) -> None:
        walker = self._world.walker(wire.whole(number, "actor id"))
        walker.control = WalkerControl()

    def set_actor_enable_gravity(self, number: Any, enabled: Any) -> None:
        """Everything stands on flat ground, so gravity changes nothing."""
        self._actor(number)
        wire.flag(enabled, "gravity")

    def set_actor_target_velocity(self, number: Any, velocity: Any) -> None:
        actor, wanted = self._actor(number), wire.vector(velocity, "velocity")
        if isinstance(actor, Vehicle):
            set_velocity(actor, wanted)
        else:
            actor.velocity = wanted

    def enable_actor_constant_velocity(self, number: Any, velocity: Any) -> None:
        self._vehicle(number).constant_velocity = wire.vector(velocity, "velocity")

    def disable_actor_constant_velocity(self, number: Any) -> None:
        self._vehicle(number).constant_velocity = None

    def add_actor_impulse(self, number: Any, impulse: Any) -> None:
        vehicle = self._vehicle(number)
        x, y, _ = wire.vector(impulse, "impulse")
        push(vehicle, (x / vehicle.mass, y / vehicle.mass, 0.0))

    def add_actor_force(self, number: Any, force: Any) -> None:
        """A force for the length of one tick."""
        x, y, z = wire.vector(force, "force")
        dt = self._world.settings.step
        self.add_actor_impulse(number, [x * dt, y * dt, z * dt])

    def apply_control_to_vehicle(self, number: Any, control: Any) -> None:
        throttle, steer, brake, hand_brake, reverse, manual, gear = wire.items(control, "control", 7)[:7]
        vehicle = self._vehicle(number)
        vehicle.ackermann = None
        vehicle.control = VehicleControl(
            _within(wire.number(throttle, "throttle"), 0.0, 1.0),
            _within(wire.number(steer, "steer"), -1.0, 1.0),
            _within(wire.number(brake, "brake"), 0.0, 1.0),
            wire.flag(hand_brake, "hand_brake"),
            wire.flag(reverse, "reverse"),
            wire.flag(manual, "manual_gear_shift"),
            wire.whole(gear, "gear", -100, 100),
        )

    def apply_ackermann_control_to_vehicle(self, number: Any, control: Any) -> None:
        steer, _, speed, *_ = (wire.number(item, "Ackermann control") for item in wire.items(control, "control", 5)[:5])
        self._vehicle(number).ackermann = (steer, speed)

    def get_physics_control(self, number: Any) -> object:
        return physics_control(self._vehicle(number))

    def apply_physics_control(self, number: Any, control: Any) -> None:
        set_physics_control(self._vehicle(number), control)

    def get_wheel_steer_angle(self, number: Any, wheel: Any) -> float:
        front = wire.whole(wheel, "wheel", 0, 3) < 2
        return degrees(self._vehicle(number).steering) if front else 0.0

    def set_vehicle_light_state(self, number: Any, state: Any) -> None:
        self._vehicle(number).lights = wire.whole(wire.items(state, "light state", 1)[0], "light state")

    def get_vehicle_light_state(self, number: Any) -> object:
        return [self._vehicle(number).lights]

    def get_vehicle_light_states(self) -> object:
        return [[a.id, a.lights] for a in self._world.actors.values() if isinstance(a, Vehicle)]

    def set_actor_autopilot(self, number: Any, enabled: Any) -> None:
        vehicle = self._vehicle(number)
        if wire.flag(enabled, "autopilot"):
            self._world.traffic.register(vehicle)
        else:
            self._world.traffic.unregister(vehicle)

    def apply_control_to_walker(self, number: Any, control: Any) -> None:
        direction, speed, jump = wire.items(control, "walker control", 3)[:3]
        walker = self._world.walker(wire.whole(number, "actor id"))
        walker.control = WalkerControl(
            wire.vector(direction, "direction"),
            max(0.0, wire.number(speed, "speed")),
            wire.flag(jump, "jump"),
        )

    def set_traffic_light_state(self, number: Any, state: Any) -> None:
        light = self._light(number)
        light.state = wire.whole(state, "traffic light state", 0, OFF)
        light.elapsed = 0.0

    def set_traffic_light_green_time(self, number: Any, seconds: Any) -> None:
        self._light(number).green_time = _seconds(seconds)

    def set_traffic_light_yellow_time(self, number: Any, seconds: Any) -> None:
        self._light(number).yellow_time = _seconds(seconds)

    def set_traffic_light_red_time(self, number: Any, seconds: Any) -> None:
        self._light(number).red_time = _seconds(seconds)

    def freeze_traffic_light(self, number: Any, frozen: Any) -> None:
        self._light(number).frozen = wire.flag(frozen, "frozen")

    def freeze_all_traffic_lights(self, frozen: Any) -> None:
        wanted = wire.flag(frozen, "frozen")
        for number in self._world.signal_groups:
            self._world.light(number).frozen = wanted

    def reset_traffic_light_group(self, number: Any) -> None:
        self._world.signal_groups[self._light(number).id].reset()

    def reset_all_traffic_lights(self) -> None:
        for group in dict.fromkeys(self._world.signal_groups.values()):
            group.reset()

    def get_group_traffic_lights(self, number: Any) -> object:
        return [light.id for light in self._world.signal_groups[self._light(number).id].lights]

    def get_light_boxes(self, number: Any) -> object:
        light = self._light(number)
        heads = (thing for thing in self._world.town.objects if thing.object_id == light.signal.object_id)
        return [_box(head.pose, head.size, light.id) for head in heads]

    def _actor(self, number: Any) -> Actor:
        return self._world.actor(wire.whole(number, "actor id"))

    def _vehicle(self, number: Any) -> Vehicle:
        return self._world.vehicle(wire.whole(number, "actor id"))

    def _light(self, number: Any) -> TrafficLight:
        return self._world.light(wire.whole(number, "actor id"))

    def _message(self, actor: Actor) -> object:
        return actor_message(actor, self._stream_port)


def spawn(world: World, description: Any, transform: Any, parent: Any, attachment: Any, socket: Any) -> Actor:
    """A new actor from an ActorDescription."""
    _, name, attributes = wire.items(description, "actor description", 3)[:3]
    given = [
        (wire.text(key, "attribute"), wire.whole(kind, "attribute type"), wire.text(value, "attribute"))
        for key, kind, value in (wire.items(row, "attribute", 3)[:3] for row in wire.items(attributes, "attributes"))
    ]
    wire.whole(attachment, "attachment type", 0, SPRING_ARM_GHOST)
    if socket:
        raise RefusedError(f"not served: attachment to the socket '{socket}'")
    parent_id = None if parent is None else wire.whole(parent, "parent id")
    return world.spawn(wire.text(name, "blueprint"), given, wire.pose(transform), parent_id)


def steer_walker(world: World, number: Any, transform: Any, speed: Any) -> None:
    """Command ApplyWalkerState: where the client's navigation puts a walker; the pose is that of the feet."""
    walker = world.walker(wire.whole(number, "actor id"))
    place_walker(walker, wire.pose(transform), wire.number(speed, "speed"))


def _within(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def _seconds(value: Any) -> float:
    seconds = wire.number(value, "time")
    if seconds < 0.0:
        raise RefusedError(f"a time cannot be negative: {seconds:g}")
    return seconds


def _box(pose: Pose, size: tuple[float, float, float], owner: int) -> list[object]:
    """BoundingBox in the world of a thing that stands at `pose`."""
    middle = pose._replace(z=pose.z + size[2] / 2)
    place, turn = wire.transform(middle)
    return [place, [side / 2 for side in size], turn, owner]
