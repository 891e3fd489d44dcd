"""Draws the town with Panda3D's software renderer: colour, identity and depth from one pass per view."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from carla_bridge.simulator.rendering.actor_nodes import ActorNodes
from carla_bridge.simulator.rendering.camera import pinhole
from carla_bridge.simulator.rendering.composite import Backdrop, Compositor
from carla_bridge.simulator.rendering.engine import Engine
from carla_bridge.simulator.rendering.engine_lights import EngineLights, baked
from carla_bridge.simulator.rendering.ground import Ground, define_bins
from carla_bridge.simulator.rendering.instances import StaticInstances
from carla_bridge.simulator.rendering.light import Light, light_of
from carla_bridge.simulator.rendering.occlusion import Occluders
from carla_bridge.simulator.rendering.statics import StaticScenery
from carla_bridge.simulator.rendering.textures import make_textures
from carla_bridge.simulator.rendering.visible import IdentifiedFrame, Instances
from carla_bridge.simulator.scene import CameraView, ColourAndDepth, Moment, Picture, Town, Weather

_MARGIN = 8
"""Extra columns drawn at the edges of a strip and discarded, so that smooth effects stay smooth across strips."""


class PandaRenderer:
    """A `Renderer` of one town; made and used by one thread, needs neither X server nor GPU."""

    def __init__(self, town: Town) -> None:
        self._engine = Engine()
        define_bins()
        self._ground = Ground(self._engine.root, town.surfaces)
        self._occluders = Occluders(town.objects)
        self._scenery = StaticScenery(self._engine.root, town.objects, make_textures())
        self._actors = ActorNodes()
        self._instances = Instances(self._engine, StaticInstances(town.objects), self._actors)
        self._compositor = Compositor(town)
        self._lights = EngineLights(self._engine.root)
        self._weather = Weather()
        self._set_light()
        self._beside = ThreadPoolExecutor(1, "backdrop")
        """Works while the engine draws, which releases the interpreter's lock."""

    def draw(self, moment: Moment, views: Sequence[CameraView]) -> list[Picture]:
        """Pictures of the same moment, one per view, in order; deterministic for equal arguments."""
        if moment.weather != self._weather:
            self._weather = moment.weather
            self._set_light()
        light, still = self._light, self._still
        scene = self._actors.scene(moment.moving)
        pictures = []
        for view in views:
            camera = pinhole(replace(view, columns=_widened(view)))
            screen = self._occluders.around(camera.position)
            self._ground.show(camera, screen, still)
            self._scenery.show(camera, screen, still)
            parts = self._instances.visible(camera, screen, scene, moment.traffic_lights)
            backdrop = self._beside.submit(self._compositor.backdrop, camera, screen, scene, light)
            drawn = self._instances.draw(camera, parts, tuple(light.horizon.tolist()))
            kept = _kept(view)
            pictures.append(Picture(drawn.identities[:, kept], partial(self._finish, drawn, backdrop, light, kept)))
        return pictures

    def _finish(
        self, drawn: IdentifiedFrame, backdrop: "Future[Backdrop]", light: Light, kept: slice
    ) -> ColourAndDepth:
        finished = self._compositor.finish(drawn, backdrop.result(), light)
        return ColourAndDepth(finished.bgra[:, kept], finished.depth[:, kept])

    def _set_light(self) -> None:
        self._light = light_of(self._weather)
        self._still = baked(self._light)
        self._lights.apply(self._light)

    def close(self) -> None:
        """Release buffers and the engine."""
        self._beside.shutdown()
        self._engine.close()


def _widened(view: CameraView) -> range:
    return range(max(view.shown.start - _MARGIN, 0), min(view.shown.stop + _MARGIN, view.width))


def _kept(view: CameraView) -> slice:
    """The wanted columns among those that are drawn."""
    first = view.shown.start - _widened(view).start
    return slice(first, first + len(view.shown))
