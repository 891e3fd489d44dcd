"""Instance masks against depth images, drawn by hand: the embedded simulator shows no object through a hill."""

import numpy as np
import pytest

from carla_bridge.annotation import Annotator
from carla_bridge.fleet.visibility import FARTHEST, MARGIN, metres, without_hidden
from carla_bridge.tags import RIDER

CAR, WALKER, LIGHT = 14, 12, 7
SHAPE = (12, 20)
ONE, OTHER = 300, 65536 + 301


def mask_with(*objects):
    """A mask of the tag, the id and the place of each object."""
    mask = np.zeros((*SHAPE, 4), np.uint8)
    mask[..., 3] = 255
    for tag, number, where in objects:
        mask[where] = [number >> 8 & 255, number & 255, tag, 255]
    return mask


def depth_with(*stretches, far=500.0):
    """A depth image of the metres at each place."""
    depth = np.full(SHAPE, far)
    for distance, where in stretches:
        depth[where] = distance
    code = np.rint(depth / FARTHEST * (256**3 - 1)).astype(np.int64)
    return np.stack([code >> 16, code >> 8 & 255, code & 255, np.full(SHAPE, 255)], axis=-1).astype(np.uint8)


def boxes(mask):
    return [
        (int(box.x), int(box.y), int(box.width), int(box.height)) for box in Annotator(min_pixels=4).annotate(mask, 1)
    ]


LEFT, RIGHT = np.s_[2:8, 2:8], np.s_[2:8, 12:18]


def test_metres_are_those_that_were_drawn():
    for distance in (0.0, 0.5, 37.25, 999.0):
        assert metres(depth_with(far=distance)) == pytest.approx(distance, abs=1e-3)


def test_a_car_behind_a_hill_has_no_box_and_one_before_it_has():
    mask = mask_with((CAR, ONE, LEFT), (CAR, OTHER, RIGHT))
    hill = depth_with((40.0, np.s_[4:, :]), (40.0, LEFT), (30.0, RIGHT))
    left = without_hidden(mask, hill, {ONE: 80.0, OTHER: 30.0})
    assert boxes(mask) == [(2, 2, 6, 6), (12, 2, 6, 6)]
    assert boxes(left) == [(12, 2, 6, 6)]


def test_a_box_is_tight_around_what_the_hill_leaves():
    mask = mask_with((CAR, ONE, LEFT))
    left = without_hidden(mask, depth_with((80.0, LEFT), (40.0, np.s_[5:, :])), {ONE: 80.0})
    assert boxes(left) == [(2, 2, 6, 3)]


@pytest.mark.parametrize("tag", [WALKER, RIDER, CAR, 19])
def test_whatever_moves_is_checked(tag):
    left = without_hidden(mask_with((tag, ONE, LEFT)), depth_with((10.0, LEFT)), {ONE: 50.0})
    assert not left[LEFT].any()


def test_what_nobody_knows_the_place_of_stays():
    mask = mask_with((LIGHT, ONE, LEFT), (CAR, OTHER, RIGHT))
    assert (without_hidden(mask, depth_with(far=1.0), {ONE: 50.0}) == mask).all()


def test_a_mirror_outside_the_bounding_box_stays():
    mask = mask_with((CAR, ONE, LEFT))
    assert (without_hidden(mask, depth_with((20.0 - MARGIN + 0.1, LEFT)), {ONE: 20.0}) == mask).all()
    assert not (without_hidden(mask, depth_with((20.0 - MARGIN - 0.1, LEFT)), {ONE: 20.0}) == mask).all()


def test_of_actors_whose_ids_look_alike_the_nearer_counts():
    mask = mask_with((CAR, ONE, LEFT))
    for nearest in ({ONE: 20.0, ONE + 65536: 90.0}, {ONE + 65536: 90.0, ONE: 20.0}):
        assert (without_hidden(mask, depth_with((30.0, LEFT)), nearest) == mask).all()
