"""The data that the world hands to the renderer, and the pictures that come back.

The world decides where everything is; the renderer only draws it. Coordinates are CARLA's: metres, x forward,
y to the right, z up (left-handed), angles in degrees, yaw clockwise seen from above.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Pose(NamedTuple):
    """A position and an orientation in the world. A tuple, because every tick makes one for everything that moves."""

    x: float
    y: float
    z: float
    pitch: float = 0.0
    yaw: float = 0.0
    roll: float = 0.0


@dataclass(frozen=True)
class StaticObject:
    """A thing of the map that never moves: building, tree, sign, parked car, guard rail, traffic-light pole."""

    kind: str
    pose: Pose
    size: tuple[float, float, float]
    """Full length (x), width (y) and height (z) in the object's own frame; the pose is the centre of its base."""
    tag: int
    """CARLA's semantic tag."""
    object_id: int = 0
    """16-bit id in instance images; 0 if the object is not an instance."""
    colour: tuple[int, int, int] = (128, 128, 128)
    variant: int = 0
    """Which look of its kind: a facade, a crown, a sign's speed limit, a parked car's body."""


@dataclass(frozen=True)
class Surface:
    """A flat polygon on the ground: carriageway, pavement, grass, crossing, lane marking."""

    kind: str
    points: NDArray[np.float64]
    """(n, 2) outline, convex or a quad strip's quad."""
    tag: int


@dataclass(frozen=True)
class Town:
    """The static part of the world, built once per map and seed."""

    name: str
    surfaces: Sequence[Surface]
    objects: Sequence[StaticObject]


class MovingObject(NamedTuple):
    """An actor at one tick."""

    actor_id: int
    blueprint: str
    pose: Pose
    """Centre of the base of the bounding box (on the ground)."""
    extent: tuple[float, float, float]
    """Half length, half width, half height."""
    tag: int
    colour: tuple[int, int, int] = (128, 128, 128)
    gait: float = 0.0
    """Walking phase in radians for walkers, wheel angle for two-wheelers; lets legs move."""
    lights: int = 0
    """CARLA's vehicle light flags (brake lights among them)."""


@dataclass(frozen=True)
class MovingObjects:
    """All actors at one tick as columns, which cross to other processes and enter arithmetic as they are."""

    blueprints: Sequence[str]
    numbers: NDArray[np.float64]
    """(n, 16): id, place, pitch, yaw, roll, extent, tag, colour, gait, lights."""

    @classmethod
    def of(cls, actors: Sequence[MovingObject]) -> "MovingObjects":
        rows = [
            (a.actor_id, p.x, p.y, p.z, p.pitch, p.yaw, p.roll, *a.extent, a.tag, *a.colour, a.gait, a.lights)
            for a in actors
            for p in (a.pose,)
        ]
        return cls([actor.blueprint for actor in actors], np.array(rows, np.float64).reshape(-1, 16))

    def __len__(self) -> int:
        return len(self.blueprints)

    def __getitem__(self, index: int) -> MovingObject:
        number, *pose, length, width, height, tag, red, green, blue, gait, lights = self.numbers[index].tolist()
        colour = (int(red), int(green), int(blue))
        extent = (length, width, height)
        return MovingObject(
            int(number), self.blueprints[index], Pose(*pose), extent, int(tag), colour, gait, int(lights)
        )

    @property
    def ids(self) -> list[int]:
        ids: list[int] = self.numbers[:, 0].astype(np.int64).tolist()
        return ids

    @property
    def positions(self) -> NDArray[np.float64]:
        return self.numbers[:, 1:4]

    @property
    def rotations(self) -> NDArray[np.float64]:
        """Pitch, yaw and roll."""
        return self.numbers[:, 4:7]

    @property
    def extents(self) -> NDArray[np.float64]:
        return self.numbers[:, 7:10]


@dataclass(frozen=True)
class Weather:
    """The part of CARLA's WeatherParameters that is drawn."""

    cloudiness: float = 5.0
    precipitation: float = 0.0
    precipitation_deposits: float = 0.0
    wetness: float = 0.0
    sun_azimuth: float = 0.0
    sun_altitude: float = 45.0
    fog_density: float = 0.0
    fog_distance: float = 0.0


@dataclass(frozen=True)
class CameraView:
    """One picture to take: its pose, size and field of view."""

    pose: Pose
    width: int
    height: int
    fov: float
    """Horizontal field of view in degrees of the whole width."""
    columns: range | None = None
    """The wanted columns of the picture; None for all."""

    @property
    def shown(self) -> range:
        return range(self.width) if self.columns is None else self.columns


@dataclass(frozen=True)
class ColourAndDepth:
    """The images of a picture that take longer than its identities."""

    bgra: NDArray[np.uint8]
    """(h, w, 4)."""
    depth: NDArray[np.float32]
    """(h, w) metres along the camera's axis."""


@dataclass(frozen=True)
class Picture:
    """One view of one tick, in the wanted columns; all four images agree pixel by pixel."""

    identity: NDArray[np.uint32]
    """(h, w) words of CARLA's instance images, see `identities`."""
    finish: Callable[[], ColourAndDepth]
    """Computes the other images on first use, so that identities can be sent before."""

    @cached_property
    def _finished(self) -> ColourAndDepth:
        return self.finish()

    @property
    def bgra(self) -> NDArray[np.uint8]:
        return self._finished.bgra

    @property
    def depth(self) -> NDArray[np.float32]:
        return self._finished.depth

    @property
    def tag(self) -> NDArray[np.uint8]:
        """(h, w) CARLA semantic tags."""
        return (self.identity >> 16).astype(np.uint8)

    @property
    def object_id(self) -> NDArray[np.uint16]:
        """(h, w) actor id modulo 65536, or the id of the static object, or 0."""
        return self.identity.astype(np.uint16).byteswap()


def identities(tags: NDArray[np.uint8], object_ids: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Little-endian words of CARLA's instance images: in memory the id's high byte, its low byte, the tag, and 255."""
    words: NDArray[np.uint32] = tags * np.uint32(0x10000) | object_ids.byteswap() | np.uint32(0xFF000000)
    return words


@dataclass(frozen=True)
class Moment:
    """Everything that changes from tick to tick."""

    moving: MovingObjects = field(default_factory=lambda: MovingObjects.of([]))
    traffic_lights: Mapping[int, int] = field(default_factory=dict)
    """What each light shows, by the id of its StaticObject, in CARLA's enum: 0 red, 1 yellow, 2 green, 3 off."""
    weather: Weather = field(default_factory=Weather)

    @classmethod
    def of(
        cls,
        actors: Sequence[MovingObject],
        traffic_lights: Mapping[int, int] | None = None,
        weather: Weather | None = None,
    ) -> "Moment":
        return cls(MovingObjects.of(actors), traffic_lights or {}, weather or Weather())


class Renderer(Protocol):
    """Draws a town at a moment. One thread makes it and uses it."""

    def draw(self, moment: Moment, views: Sequence[CameraView]) -> list[Picture]:
        """Pictures of the same moment, one per view, in order; deterministic for equal arguments."""

    def close(self) -> None:
        """Release buffers and the engine."""
