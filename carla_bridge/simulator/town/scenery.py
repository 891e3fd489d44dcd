"""Collects static objects and gives ids to those that are instances."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from carla_bridge.simulator.catalogue.kinds import (
    CROWNS,
    FACADES,
    OBJECT_TAGS,
    PARKED_MODELS,
    ObjectKind,
)
from carla_bridge.simulator.catalogue.vehicle_models import PAINTS, vehicle_models
from carla_bridge.simulator.scene import Pose, StaticObject, Surface

GREENS = ((66, 96, 44), (84, 110, 52), (58, 84, 48), (98, 116, 58), (74, 100, 60))
WALLS = (
    (178, 160, 140),
    (196, 184, 168),
    (152, 120, 100),
    (168, 96, 76),
    (140, 146, 152),
    (206, 196, 170),
    (120, 112, 108),
    (186, 190, 192),
)


@dataclass
class Scenery:
    """Objects and surfaces gathered so far; `next_id` is the next free instance id of the map."""

    random: np.random.Generator
    next_id: int
    objects: list[StaticObject] = field(default_factory=list)
    surfaces: list[Surface] = field(default_factory=list)

    def __post_init__(self) -> None:
        extents = {model.blueprint: model.extent for model in vehicle_models()}
        self._parked = [extents[blueprint] for blueprint in PARKED_MODELS]

    def add(
        self,
        kind: ObjectKind,
        x: float,
        y: float,
        size: tuple[float, float, float],
        *,
        yaw: float = 0.0,
        z: float = 0.0,
        colour: tuple[int, int, int] = (128, 128, 128),
        variant: int = 0,
        object_id: int = 0,
    ) -> None:
        pose = Pose(float(x), float(y), float(z), yaw=float(yaw % 360))
        self.objects.append(StaticObject(kind.value, pose, size, int(OBJECT_TAGS[kind]), object_id, colour, variant))

    def house(self, kind: ObjectKind, x: float, y: float, size: tuple[float, float, float]) -> None:
        """A building of some colour and facade."""
        self.add(kind, x, y, size, colour=self.pick(WALLS), variant=self.whole(FACADES))

    def tree(self, x: float, y: float, scale: float = 1.0, conifer: bool = False) -> None:
        height = scale * self.between(5.0, 9.5)
        crown = height * (0.36 if conifer else self.between(0.5, 0.72))
        kind = ObjectKind.CONIFER if conifer else ObjectKind.TREE
        size = (crown, crown, height)
        self.add(kind, x, y, size, yaw=self.between(0, 360), colour=self.pick(GREENS), variant=self.whole(CROWNS))

    def bush(self, x: float, y: float) -> None:
        wide = self.between(0.8, 2.0)
        size = (wide, wide, wide * self.between(0.55, 0.8))
        self.add(ObjectKind.BUSH, x, y, size, colour=self.pick(GREENS))

    def parked_car(self, x: float, y: float, yaw: float) -> None:
        """A car that belongs to the map: an instance in pictures, but not an actor."""
        variant = self.whole(len(PARKED_MODELS))
        extent = self._parked[variant]
        size = (2 * extent[0], 2 * extent[1], 2 * extent[2])
        self.add(
            ObjectKind.PARKED_CAR,
            x,
            y,
            size,
            yaw=yaw,
            colour=self.pick(PAINTS),
            variant=variant,
            object_id=self.next_id,
        )
        self.next_id += 1

    def between(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def whole(self, below: int) -> int:
        return int(self.random.integers(below))

    def pick(self, choices: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
        return choices[self.whole(len(choices))]
