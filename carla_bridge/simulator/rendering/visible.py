"""Which instances a camera may see, and the exact images of who is where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from panda3d.core import ColorScaleAttrib, NodePath, PandaNode

from carla_bridge.simulator.rendering.actors import Cast, Scene
from carla_bridge.simulator.rendering.camera import Pinhole
from carla_bridge.simulator.rendering.engine import SUPERSAMPLING, Engine, RawFrame
from carla_bridge.simulator.rendering.ground import SOLID_BIN
from carla_bridge.simulator.rendering.ids import CODES_PER_PASS, FIRST_INSTANCE, UNNAMED, code_book, look_up
from carla_bridge.simulator.rendering.instances import StaticInstances, VisiblePart
from carla_bridge.simulator.rendering.occlusion import Screen

_SMALLEST = 2.0
"""Drawn pixels under which an instance is left out: the rasteriser makes slivers too big and puts them too near."""
_DETAILED = 75.0
"""Drawn pixels from which on an instance is shown in detail."""


@dataclass(frozen=True)
class Identified:
    """A frame and who is in each of its pixels."""

    colours: NDArray[np.uint8]
    steps: NDArray[np.float32]
    codes: NDArray[np.uint8]
    identities: NDArray[np.uint32]


class Instances:
    """The part of the scene graph that is filled anew for every picture."""

    def __init__(self, engine: Engine, statics: StaticInstances, cast: Cast) -> None:
        self._engine = engine
        self._statics = statics
        self._cast = cast
        group: NodePath = engine.root.attach_new_node("instances")
        group.set_bin(SOLID_BIN, 0)
        self._group: PandaNode = group.node()
        self._codes = [ColorScaleAttrib.make((1, 1, 1, (code + 0.5) / 256)) for code in range(256)]

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
                found += [(distance, part) for part in self._cast.figure(scene, index - count, near)]
        found.sort(key=lambda pair: (pair[0], pair[1].object_id))
        return [part for _, part in found]

    def draw(self, camera: Pinhole, parts: Sequence[VisiblePart], background: tuple[float, float, float]) -> Identified:
        """Draw the frame, again if need be, until every pixel has a name."""
        self._group.remove_all_children()
        for part in parts:
            self._group.add_child(part.node)
        result = self._pass(camera, parts, 0, background)
        for first in range(CODES_PER_PASS, len(parts), CODES_PER_PASS):
            nameless = result.codes == UNNAMED
            if not nameless.any():
                break
            again = self._pass(camera, parts, first, background)
            np.copyto(result.codes, again.codes, where=nameless)
            np.copyto(result.identities, again.identities, where=nameless)
        return result

    def _pass(
        self,
        camera: Pinhole,
        parts: Sequence[VisiblePart],
        first: int,
        background: tuple[float, float, float],
    ) -> Identified:
        for index, part in enumerate(parts):
            own = first <= index < first + CODES_PER_PASS
            part.node.set_attrib(self._codes[FIRST_INSTANCE + index - first if own else UNNAMED])
        frame: RawFrame = self._engine.render(camera, background)
        coded = parts[first : first + CODES_PER_PASS]
        book = code_book([part.tag for part in coded], [part.object_id for part in coded])
        return Identified(frame.colours, frame.steps, frame.codes, look_up(frame.codes, book))


def _seen(
    camera: Pinhole,
    screen: Screen,
    centres: NDArray[np.float64],
    radii: NDArray[np.float64],
    thickness: NDArray[np.float64],
) -> list[tuple[int, float, bool]]:
    """What is in view, not too small and not behind a building: index, distance along the axis, whether detailed."""
    focal = SUPERSAMPLING * camera.focal
    distance = (centres - camera.position) @ camera.axes[:, 0]
    large = thickness * focal >= _SMALLEST * distance
    found = np.flatnonzero(camera.sees(centres, radii) & large)
    tops = centres[found, 2] + radii[found]
    found = found[~screen.hides(centres[found], radii[found], tops)]
    away = np.maximum(distance[found], 0.1)
    detailed = 2 * focal * radii[found] > _DETAILED * away
    return list(zip(found.tolist(), away.tolist(), detailed.tolist(), strict=True))
