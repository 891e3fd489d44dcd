"""The simulated world: its actors, its clock, and what one tick does to them."""

from dataclasses import dataclass
from math import radians

import numpy as np

from carla_bridge.simulator.actors.actor import (
    Actor,
    Sensor,
    TrafficLight,
    TrafficSign,
    Vehicle,
    VehicleControl,
    Walker,
)
from carla_bridge.simulator.actors.actor_index import ActorIndex
from carla_bridge.simulator.actors.collisions import Obstacles, footprints, overlapping_pairs
from carla_bridge.simulator.actors.physics import step_vehicles, step_walker, stop_at
from carla_bridge.simulator.actors.posing import attached, in_range
from carla_bridge.simulator.actors.signal_groups import group_lights
from carla_bridge.simulator.actors.spawning import make_actor
from carla_bridge.simulator.catalogue.blueprints import BlueprintLibrary
from carla_bridge.simulator.catalogue.semantics import FIRST_STATIC_ID, Tag, next_actor_id
from carla_bridge.simulator.episode import EpisodeSettings, WeatherParameters
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.scene import Moment, Pose, Town
from carla_bridge.simulator.town.build import spawn_points
from carla_bridge.simulator.town.road_network import RoadNetwork
from carla_bridge.simulator.town.road_signals import across, speed_signs, traffic_lights, trigger_volume
from carla_bridge.simulator.traffic.autopilots import Traffic
from carla_bridge.simulator.traffic.driver_targets import TrafficSettings
from carla_bridge.simulator.traffic.vehicle_lights import switch_lights

LOCKED = 5.0
"""Seconds of contact after which two autopilot vehicles may pass through each other."""


@dataclass(frozen=True)
class Collision:
    """An actor hit another one, or a thing of the map."""

    actor: Actor
    other: Actor
    impulse: tuple[float, float, float]


class World:
    """One map and its episodes. Not thread-safe: one thread owns it."""

    def __init__(self, town: Town, network: RoadNetwork, seed: int) -> None:
        self.town = town
        self.network = network
        self.library = BlueprintLibrary()
        self.obstacles = Obstacles(town.objects)
        self.signals = traffic_lights(network)
        self.signs = speed_signs(network, FIRST_STATIC_ID + len(self.signals))
        self.spawn_points = [_single(place) for place in spawn_points(network)]
        self._road_yaw = {(p.x, p.y, in_range(p).yaw): p.yaw for p in self.spawn_points}
        self.settings = EpisodeSettings()
        self._traffic_settings = TrafficSettings(seed)
        self.frame = 0
        self.episode = 0
        self._last_id = 0
        self._last_stream = 1
        self.start_episode()

    def start_episode(self) -> None:
        """Start a new episode on the same map: new ids, empty roads, clock at zero.

        The traffic manager's settings for all vehicles are kept, as with CARLA.
        """
        self.episode += 1
        self.elapsed = 0.0
        self.weather = WeatherParameters()
        self.actors: dict[int, Actor] = {}
        self._touching: dict[tuple[int, int], float] = {}
        lights = []
        for signal in self.signals:
            pose = Pose(signal.x, signal.y, 0.0, yaw=across(signal))
            light = TrafficLight(self._new_id(), "traffic.traffic_light", pose, signal=signal, tag=Tag.TRAFFIC_LIGHT)
            light.box_centre, light.extent = trigger_volume(signal)
            lights.append(light)
        self.signal_groups = group_lights(lights)
        signs = [
            TrafficSign(
                self._new_id(),
                f"traffic.speed_limit.{signal.speed}",
                Pose(signal.x, signal.y, 0.0, yaw=signal.facing),
                signal=signal,
                extent=(0.1, 0.4, 1.5),
                box_centre=(0.0, 0.0, 1.5),
                tag=Tag.TRAFFIC_SIGN,
            )
            for signal in self.signs
        ]
        self.spectator = Actor(self._new_id(), "spectator", Pose(0.0, 0.0, 60.0, pitch=-60.0))
        self.actors = {actor.id: actor for actor in (*lights, *signs, self.spectator)}
        self.traffic = Traffic(self.network, lights, self._traffic_settings)
        self._actor_index: ActorIndex | None = None

    @property
    def actor_index(self) -> ActorIndex:
        """The actors by kind."""
        if self._actor_index is None:
            self._actor_index = ActorIndex.of(self.actors.values())
        return self._actor_index

    def actor(self, number: int) -> Actor:
        found = self.actors.get(number)
        if found is None:
            raise RefusedError(f"there is no actor {number}: it was never spawned or has been destroyed")
        return found

    def vehicle(self, number: int) -> Vehicle:
        found = self.actor(number)
        if not isinstance(found, Vehicle):
            raise RefusedError(f"actor {number} is a {found.blueprint}, not a vehicle")
        return found

    def walker(self, number: int) -> Walker:
        found = self.actor(number)
        if not isinstance(found, Walker):
            raise RefusedError(f"actor {number} is a {found.blueprint}, not a walker")
        return found

    def light(self, number: int) -> TrafficLight:
        found = self.actor(number)
        if not isinstance(found, TrafficLight):
            raise RefusedError(f"actor {number} is a {found.blueprint}, not a traffic light")
        return found

    def spawn(self, blueprint: str, given: list[tuple[str, int, str]], pose: Pose, parent: int | None) -> Actor:
        """Put a new actor into the world, or refuse and say why."""
        if blueprint not in self.library:
            raise RefusedError(f"not served: blueprint '{blueprint}'")
        parent_actor = None if parent is None else self.actor(parent)
        actor = make_actor(self._new_id(), self.library[blueprint], given, self.unwrapped(pose), parent_actor)
        if isinstance(actor, Vehicle | Walker):
            self._check_room(actor)
        if isinstance(actor, Sensor):
            self._last_stream += 1
            actor.stream = self._last_stream
        if parent_actor is not None:
            actor.velocity = parent_actor.velocity
        if isinstance(actor, Vehicle):
            actor.speed_limit = self.network.nearest(pose.x, pose.y, radians(pose.yaw))[0].speed_limit
        self.actors[actor.id] = actor
        self._actor_index = None
        return actor

    def unwrapped(self, pose: Pose) -> Pose:
        """The pose; at a spawn point, with the yaw that the road has there.

        Roads count their turns, and clients see yaw in [-180, 180). Which of the two a vehicle starts with changes the
        last bits of its drive.
        """
        return pose._replace(yaw=self._road_yaw.get((pose.x, pose.y, pose.yaw), pose.yaw))

    def destroy(self, number: int) -> bool:
        """Remove an actor and what is attached to it; False if it is unknown or part of the map."""
        actor = self.actors.get(number)
        if actor is None or isinstance(actor, TrafficLight | TrafficSign) or actor is self.spectator:
            return False
        removed = {actor}
        for other in self.actors.values():  # in the order of spawning: attached actors come after their parent
            if other.parent in removed:
                removed.add(other)
        for each in removed:
            if isinstance(each, Vehicle):
                self.traffic.forget(each)
            del self.actors[each.id]
        self._actor_index = None
        return True

    def step(self) -> list[Collision]:
        """One tick."""
        hits = self.advance()
        self.decide()
        return hits

    def advance(self) -> list[Collision]:
        """The visible part of a tick: lights, physics, walkers, collisions.

        A long step is divided: all actors move and decide in turns, so that no driver moves far without a decision.
        """
        dt = self.settings.step
        self.frame += 1
        self.elapsed += dt
        steered = [walker for walker in self.actor_index.walkers if walker.steered]
        collisions = self._move()
        for _ in range(self.settings.pieces - 1):
            self._drive()
            for walker in steered:
                walker.steered = True
            known = {(hit.actor.id, hit.other.id) for hit in collisions}
            collisions += [hit for hit in self._move() if (hit.actor.id, hit.other.id) not in known]
        for actor in self.actor_index.attached:
            if actor.parent is not None and actor.mount is not None:
                _move_attached(actor, actor.parent, actor.mount, dt)
        return collisions

    def decide(self) -> None:
        """The rest of a tick: drivers look at the world and set their controls for the next."""
        self._drive()
        switch_lights(self.traffic.drivers.values(), self.weather.seen)
        for vehicle in self.actor_index.vehicles:
            if not vehicle.sticky and not vehicle.autopilot:
                vehicle.control = VehicleControl()

    def moment(self) -> Moment:
        """What the renderer needs to know of this tick."""
        lights = {light.signal.object_id: light.state for light in self.actor_index.lights}
        return Moment(self.actor_index.moving_table.now(), lights, self.weather.seen)

    def sensors(self) -> list[Sensor]:
        return self.actor_index.sensors

    def _drive(self) -> None:
        self.traffic.step(self.actor_index, self.settings.step / self.settings.pieces)

    def _move(self) -> list[Collision]:
        """Advance lights, vehicles and walkers by one piece of a step."""
        dt = self.settings.step / self.settings.pieces
        for group in dict.fromkeys(self.signal_groups.values()):
            group.step(dt)
        vehicles, walkers = self.actor_index.vehicles, self.actor_index.walkers
        before = {vehicle: vehicle.pose for vehicle in vehicles}
        step_vehicles(vehicles, dt)
        for walker in walkers:
            step_walker(walker, dt)
        return self._collide(before, walkers, dt)

    def _new_id(self) -> int:
        self._last_id = next_actor_id(self._last_id)
        return self._last_id

    def _check_room(self, actor: Actor) -> None:
        solid = [other for other in self.actors.values() if isinstance(other, Vehicle | Walker)]
        boxes = footprints([actor, *solid])
        taken = any(first == 0 for first, _ in overlapping_pairs(boxes))
        if taken or self.obstacles.hit_by(boxes[0]) is not None:
            raise RefusedError("Spawn failed because of collision at spawn position")

    def _collide(self, before: dict[Vehicle, Pose], walkers: list[Walker], dt: float) -> list[Collision]:
        bodies: list[Vehicle | Walker] = [vehicle for vehicle in before if vehicle.collides]
        bodies += [walker for walker in walkers if walker.collides or walker.steered]
        boxes = footprints(bodies)
        hits: list[Collision] = []
        touching: dict[tuple[int, int], float] = {}
        for i, j in overlapping_pairs(boxes):
            one, two = bodies[i], bodies[j]
            touching[one.id, two.id] = self._touching.get((one.id, two.id), 0.0) + dt
            if isinstance(one, Walker) and isinstance(two, Walker):
                continue
            hits += [_hit(one, two), _hit(two, one)]
            for body, other in ((one, two), (two, one)):
                # two wedged autopilots may move apart again; otherwise the street would stay blocked
                locked = touching[one.id, two.id] > LOCKED and _on_autopilot(one) and _on_autopilot(two)
                if not locked and isinstance(body, Vehicle) and _approaches(body, other):
                    stop_at(body, before[body])
        self._touching = touching
        for number, body in enumerate(bodies):
            if isinstance(body, Vehicle) and not body.autopilot and body.speed:
                thing = self.obstacles.hit_by(boxes[number])
                if thing is not None:
                    wall = Actor(0, f"static.{thing.kind}", thing.pose, tag=Tag(thing.tag))
                    hits.append(_hit(body, wall))
                    stop_at(body, before[body])
        return hits


def _single(pose: Pose) -> Pose:
    """The pose in single precision, as clients receive it and give it back."""
    return Pose(*(float(np.float32(value)) for value in pose))


def _move_attached(actor: Actor, parent: Actor, mount: Pose, dt: float) -> None:
    """Move an attached actor with its parent."""
    actor.pose = attached(parent.pose, mount)
    (x, y, z), (was_x, was_y, was_z) = parent.velocity, actor.velocity
    actor.acceleration = ((x - was_x) / dt, (y - was_y) / dt, (z - was_z) / dt)
    actor.velocity, actor.angular_velocity = parent.velocity, parent.angular_velocity


def _approaches(body: Actor, other: Actor) -> bool:
    toward = (other.pose.x - body.pose.x, other.pose.y - body.pose.y)
    return body.velocity[0] * toward[0] + body.velocity[1] * toward[1] > 0.0


def _on_autopilot(actor: Actor) -> bool:
    return isinstance(actor, Vehicle) and actor.autopilot


def _hit(actor: Actor, other: Actor) -> Collision:
    mass = actor.mass if isinstance(actor, Vehicle) else 75.0
    dvx, dvy = actor.velocity[0] - other.velocity[0], actor.velocity[1] - other.velocity[1]
    return Collision(actor, other, (-dvx * mass, -dvy * mass, 0.0))
