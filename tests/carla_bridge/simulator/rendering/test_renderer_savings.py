"""What the renderer leaves out, because it cannot be seen, cannot be seen."""

import numpy as np
import pytest

from carla_bridge.simulator.rendering import contact, sky
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import CameraView, Moment, Pose
from tests.support.renderer_scene import street, traffic

POSES = [
    Pose(-20, 0, 1.6),
    Pose(-20, 0, 60, pitch=-10),
    Pose(-20, 0, 1.6, pitch=25),
    Pose(-20, 0, 3, roll=35),
    Pose(-20, 0, 3, roll=180),
    Pose(0, 0, 30, pitch=-90),
]


@pytest.fixture(scope="module")
def renderer():
    made = PandaRenderer(street())
    yield made
    made.close()


@pytest.mark.parametrize("pose", POSES)
@pytest.mark.parametrize("height", [256, 255])
def test_the_sky_is_drawn_wherever_it_is_seen(renderer, monkeypatch, pose, height):
    view = CameraView(pose, 416, height, 90.0)
    thrifty = renderer.draw(Moment(), [view])[0].bgra
    monkeypatch.setattr(sky, "_LAND_ENDS", 0.0)
    everywhere = renderer.draw(Moment(), [view])[0].bgra
    np.testing.assert_array_equal(thrifty, everywhere)


@pytest.mark.parametrize("pose", POSES)
def test_shadows_that_are_left_out_are_too_flat_to_be_missed(renderer, monkeypatch, pose):
    moment, view = Moment.of(traffic()), CameraView(pose, 416, 256, 90.0)
    thrifty = renderer.draw(moment, [view])[0].bgra.astype(int)
    monkeypatch.setattr(contact, "_FLATTEST", 0.0)
    all_of_them = renderer.draw(moment, [view])[0].bgra.astype(int)
    assert (np.abs(thrifty - all_of_them) > 8).any(axis=2).mean() < 5e-4
