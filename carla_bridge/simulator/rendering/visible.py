"""Which instances a camera may see, and the exact identity of every pixel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from panda3d.core import ColorScaleAttrib, NodePath, PandaNode

from carla_bridge.simulator.rendering.actor_nodes import ActorNodes, Scene
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.engine import Engine, RawFrame
from carla_bridge.simulator.rendering.ground import SOLID_BIN
from carla_bridge.simulator.rendering.ids import CODES_PER_PASS, FIRST_INSTANCE, UNNAMED, code_book, look_up
from carla_bridge.simulator.rendering.instances import StaticInstances, VisiblePart
from carla_bridge.simulator.rendering.occlusion import Screen

_SMALLEST = 2.0
"""Pixels under which an instance is left out: the rasteriser makes slivers too big and puts them too near, and half of
all that stands in a street is so far away."""
_DETAILED = 37.5
"""Pixels above which an instance is shown in detail."""


@dataclass(frozen=True)
class IdentifiedFrame:
    """A frame and the identity of each of its pixels."""

    colours: NDArray[np.uint8]
    steps: NDArray[np.float32]
    codes: NDArray[np.uint8]
    identities: NDArray[np.uint32]


class Instances:
    """The part of the scene graph that changes from picture to picture, by as little as possible."""

    def __init__(self, engine: Engine, statics: StaticInstances, actors: ActorNodes) -> None:
        self._engine = engine
        self._statics = statics
        self._actors = actors
        group: NodePath = engine.root.attach_new_node("instances")
        group.set_bin(SOLID_BIN, 0)
        self._group: PandaNode = group.node()
        self._codes = [ColorScaleAttrib.make((1, 1, 1, (code + 0.5) / 256)) for code in range(256)]
        self._shown: dict[VisiblePart, int] = {}
        """What is in the scene, with its code."""

    def visible(self, camera: Pinhole, screen: Screen, scene: Scene, lights: Mapping[int, int]) -> list[VisiblePart]:
        """All parts that may be seen, nearest first."""
        still = self._statics.around(screen)
        count = len(still.numbers)
        bounds = [still.centres, scene.centres], [still.radii, scene.radii], [still.thickness, scene.thickness]
        found: list[tuple[float, VisiblePart]] = []
        for index, distance, near in _seen(camera, screen, *map(np.concatenate, bounds)):
            if index < count:
                found.append((distance, self._statics.part(int(still.numbers[index]), lights, near)))
            else:
                found += [(distance, part) for part in self._actors.parts(scene, index - count, near)]
        found.sort(key=lambda pair: (pair[0], pair[1].object_id))
        return [part for _, part in found]

    def draw(
        self, camera: Pinhole, parts: Sequence[VisiblePart], background: tuple[float, float, float]
    ) -> IdentifiedFrame:
        """Draw the frame, several times if necessary, until every pixel has an identity."""
        one_pass = len(parts) <= CODES_PER_PASS
        result = self._pass(camera, self._kept_codes(parts) if one_pass else _codes(parts, 0), background)
        for first in range(CODES_PER_PASS, len(parts), CODES_PER_PASS):
            nameless = result.codes == UNNAMED
            if not nameless.any():
                break
            again = self._pass(camera, _codes(parts, first), background)
            np.copyto(result.codes, again.codes, where=nameless)
            np.copyto(result.identities, again.identities, where=nameless)
        return result

    def _pass(
        self, camera: Pinhole, codes: Mapping[VisiblePart, int], background: tuple[float, float, float]
    ) -> IdentifiedFrame:
        self._show(codes)
        frame: RawFrame = self._engine.render(camera, background)
        return IdentifiedFrame(frame.colours, frame.steps, frame.codes, look_up(frame.codes, _code_book(codes)))

    def _kept_codes(self, parts: Sequence[VisiblePart]) -> dict[VisiblePart, int]:
        """A code for each part: the one it has, or one that is free. Which one it is cannot be seen in the picture."""
        kept = {part: code for part in parts if (code := self._shown.get(part, UNNAMED)) != UNNAMED}
        free = iter(set(range(FIRST_INSTANCE, 256)).difference(kept.values()))
        return {part: kept[part] if part in kept else next(free) for part in parts}

    def _show(self, codes: Mapping[VisiblePart, int]) -> None:
        for part in self._shown.keys() - codes.keys():
            self._group.remove_child(part.node)
        for part, code in codes.items():
            before = self._shown.get(part)
            if before is None:
                self._group.add_child(part.node, part.object_id)
            if before != code:
                part.node.set_attrib(self._codes[code])
        self._shown = dict(codes)


def _codes(parts: Sequence[VisiblePart], first: int) -> dict[VisiblePart, int]:
    """Codes for as many parts as there are codes, from the `first` on."""
    named = range(first, first + CODES_PER_PASS)
    return {part: FIRST_INSTANCE + n - first if n in named else UNNAMED for n, part in enumerate(parts)}


def _code_book(codes: Mapping[VisiblePart, int]) -> NDArray[np.uint32]:
    rows = [(code, part.tag, part.object_id) for part, code in codes.items() if code != UNNAMED]
    numbers, tags, object_ids = np.array(rows, np.uint16).reshape(-1, 3).T
    return code_book(numbers, tags, object_ids)


def _seen(
    camera: Pinhole,
    screen: Screen,
    centres: NDArray[np.float64],
    radii: NDArray[np.float64],
    thickness: NDArray[np.float64],
) -> list[tuple[int, float, bool]]:
    """What is in view, not too small and not behind a building: index, distance along the axis, whether detailed."""
    distance = (centres - camera.position) @ camera.axes[:, 0]
    large = thickness * camera.focal >= _SMALLEST * distance
    found = np.flatnonzero(camera.sees(centres, radii) & large)
    tops = centres[found, 2] + radii[found]
    found = found[~screen.hides(centres[found], radii[found], tops)]
    away = np.maximum(distance[found], 0.1)
    detailed = 2 * camera.focal * radii[found] > _DETAILED * away
    return list(zip(found.tolist(), away.tolist(), detailed.tolist(), strict=True))
