"""A picture that is drawn in strips is the picture that is drawn at once."""

from dataclasses import replace

import numpy as np
import pytest

from carla_bridge.simulator.pictures.render_jobs import columns, shares
from carla_bridge.simulator.rendering.renderer import PandaRenderer
from carla_bridge.simulator.scene import CameraView, Moment, Pose, Weather
from tests.support.renderer_scene import street, traffic, view

IMAGES = ("bgra", "tag", "object_id", "depth")


@pytest.fixture(scope="module")
def renderer():
    made = PandaRenderer(street())
    yield made
    made.close()


def drawn_in_strips(renderer: PandaRenderer, moment: Moment, whole: CameraView, strips: int) -> dict[str, np.ndarray]:
    parts = [columns(whole.width, strip, strips) for strip in range(strips)]
    pictures = renderer.draw(moment, [replace(whole, columns=part) for part in parts if len(part)])
    return {name: np.concatenate([getattr(picture, name) for picture in pictures], axis=1) for name in IMAGES}


@pytest.mark.parametrize("strips", [2, 3])
@pytest.mark.parametrize(
    "where",
    [
        view(),
        view(x=40, pitch=-10, yaw=30, roll=5),
        view(x=60, y=-3, z=9, pitch=-25, yaw=170),
        CameraView(Pose(0, 0.5, 1.4), 203, 121, 120.0),
    ],
)
def test_strips_join_without_a_seam(renderer, where, strips):
    moment = Moment.of(traffic(), weather=Weather(fog_density=8, cloudiness=60, sun_altitude=30))
    whole = renderer.draw(moment, [where])[0]
    joined = drawn_in_strips(renderer, moment, where, strips)
    pixels = whole.tag.size
    for name in IMAGES:
        assert joined[name].shape == getattr(whole, name).shape
    # a silhouette that is cut at a strip's border may be rounded to the neighbouring pixel
    assert (joined["tag"] != whole.tag).sum() <= pixels / 500
    assert (joined["object_id"] != whole.object_id).sum() <= pixels / 500
    assert (np.abs(joined["depth"] - whole.depth) > 0.02 * whole.depth).sum() <= pixels / 100
    colour_error = np.abs(joined["bgra"].astype(int) - whole.bgra).max(axis=2)
    assert (colour_error > 6).sum() <= pixels / 100
    for strip in range(1, strips):
        seam = columns(where.width, strip, strips).start
        assert np.median(colour_error[:, seam - 1 : seam + 1]) <= 1


def test_strips_do_not_depend_on_what_was_drawn_before(renderer):
    moment = Moment.of(traffic())
    first = drawn_in_strips(renderer, moment, view(), 2)
    renderer.draw(Moment.of(traffic()[::3]), [view(yaw=120), view(x=20)])
    again = drawn_in_strips(renderer, moment, view(), 2)
    for name in IMAGES:
        np.testing.assert_array_equal(first[name], again[name])


@pytest.mark.parametrize("width", [1, 7, 8, 9, 15, 17, 64, 203, 416, 1920])
def test_strips_cover_every_column_once(width):
    for strips in (1, 2, 3):
        found = [column for strip in range(strips) for column in columns(width, strip, strips)]
        assert found == list(range(width))


@pytest.mark.parametrize("strips", [1, 2, 3])
@pytest.mark.parametrize("count", range(8))
def test_every_column_of_every_view_is_drawn_once(count, strips):
    views = [CameraView(Pose(number, 0, 2), 203 if number % 3 else 64, 40, 90.0) for number in range(count)]
    parts = [shares(views, strip, strips) for strip in range(strips)]
    for whole in views:
        assert sorted(column for part in parts for column in part[whole]) == list(range(whole.width))


def test_views_of_one_size_are_dealt_out_whole_and_the_odd_one_is_cut():
    views = [view(x=number) for number in range(3)]
    left, right = (list(shares(views, strip, 2).values()) for strip in range(2))
    assert left == [range(416), range(0), range(0, 208)]
    assert right == [range(0), range(416), range(208, 416)]


def test_views_of_different_sizes_are_cut_so_that_no_process_waits():
    large, small = view(), CameraView(Pose(0, 0, 2), 64, 40, 90.0)
    assert shares([large, small], 0, 2) == {large: range(208), small: range(32)}


def test_a_view_alone_is_cut_only_if_it_is_large():
    small, large = view(), CameraView(Pose(0, 0, 2), 800, 600, 90.0)
    assert [shares([small], strip, 2)[small] for strip in range(2)] == [range(416), range(0)]
    assert [shares([large], strip, 2)[large] for strip in range(2)] == [range(400), range(400, 800)]
