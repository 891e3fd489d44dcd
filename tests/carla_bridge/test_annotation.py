"""Boxes against a slow, obvious reading of the same mask."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from carla_bridge.annotation import Annotator
from carla_bridge.errors import AnnotationError
from carla_bridge.frames import Box
from carla_bridge.tags import DEFAULT_TAGS, RIDER, TWO_WHEELER_TAGS

TAGS = (0, 1, 7, 8, 12, RIDER, 14, 15, 18, 19)


def mask_of(tags, ids):
    mask = np.zeros((*tags.shape, 4), np.uint8)
    mask[..., 0], mask[..., 1], mask[..., 2], mask[..., 3] = ids >> 8, ids & 0xFF, tags, 255
    return mask


def pixel_by_pixel(tags, ids, ego, min_pixels):
    labels = {tag: label for label, group in enumerate(DEFAULT_TAGS.values()) for tag in group}
    wheels: dict[int, int] = {}
    for tag in TWO_WHEELER_TAGS:
        for number in np.unique(ids[tags == tag]):
            wheels.setdefault(int(number), labels[tag])
    members: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for (row, column), tag in np.ndenumerate(tags):
        number = int(ids[row, column])
        label = wheels.get(number) if tag == RIDER else labels.get(int(tag))
        if label is not None and number not in (0, ego):
            members.setdefault((label, number), []).append((row, column))
    boxes = {}
    for key, pixels in members.items():
        if len(pixels) >= min_pixels:
            (top, left), (bottom, right) = np.min(pixels, axis=0), np.max(pixels, axis=0)
            edge = top == 0 or left == 0 or bottom == tags.shape[0] - 1 or right == tags.shape[1] - 1
            boxes[key] = (left, top, right - left + 1, bottom - top + 1, edge, len(pixels))
    return boxes


@st.composite
def scenes(draw):
    """Small images made of overlapping rectangles, as masks are, with ids on both sides of a byte."""
    height, width = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    tags, ids = np.zeros((height, width), int), np.zeros((height, width), int)
    for _ in range(draw(st.integers(0, 12))):
        x, y = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
        where = np.s_[y : y + draw(st.integers(1, 6)), x : x + draw(st.integers(1, 6))]
        number = draw(st.sampled_from((0, 1, 2, 255, 256, 257, 65535)))
        # A real object has one class; a two-wheeler and its rider share an id.
        kind = {1: (18, RIDER), 2: (14,), 255: (19, RIDER), 256: (12,), 257: (RIDER,), 65535: (7,)}
        tags[where], ids[where] = draw(st.sampled_from(kind.get(number, TAGS))), number
    return tags, ids


@settings(deadline=None, max_examples=150)
@given(scenes(), st.integers(1, 3), st.sampled_from((2, 255, 65536 + 256)))
def test_boxes_equal_the_masks(scene, min_pixels, ego):
    tags, ids = scene
    found = Annotator(min_pixels=min_pixels).annotate(mask_of(tags, ids), ego)
    expected = pixel_by_pixel(tags, ids, ego % 65536, min_pixels)
    actual = {
        (box.label, box.object_id): (box.x, box.y, box.width, box.height, box.truncated, box.pixels) for box in found
    }
    assert actual == expected


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.uint8, (7, 9, 4)))
def test_arbitrary_bytes_give_boxes_within_the_image(mask):
    boxes = Annotator(min_pixels=1).annotate(mask, 0).boxes
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 0] + boxes[:, 2] <= 9).all()
    assert (boxes[:, 1] + boxes[:, 3] <= 7).all()


def test_parked_vehicles_stay_or_go_as_asked_and_walkers_and_lights_stay():
    tags = np.array([[14, 14, 0, 14, 14, 0, 12, 12, 0, 7, 7]])
    ids = np.array([[9, 9, 0, 300, 300, 0, 5, 5, 0, 6, 6]])
    actors = np.array([65536 + 300, 5])
    kept = Annotator(min_pixels=1).annotate(mask_of(tags, ids), 1, actors)
    dropped = Annotator(min_pixels=1, keep_parked=False).annotate(mask_of(tags, ids), 1, actors)
    assert sorted(kept.object_ids) == [5, 6, 9, 300]
    assert sorted(dropped.object_ids) == [5, 6, 300]
    with pytest.raises(AnnotationError, match="ids of all actors"):
        Annotator(keep_parked=False).annotate(mask_of(tags, ids), 1)


@settings(deadline=None, max_examples=100)
@given(scenes())
def test_a_split_class_has_a_box_per_connected_piece(scene):
    tags, ids = scene
    found = Annotator(min_pixels=1, split=["traffic_light"]).annotate(mask_of(tags, ids), 2)
    whole = Annotator(min_pixels=1).annotate(mask_of(tags, ids), 2)
    light = list(DEFAULT_TAGS).index("traffic_light")
    expected = [box for box in whole if box.label != light]
    for number in np.unique(ids[tags == 7]):
        if number in (0, 2):
            continue
        pieces, count = ndimage.label((tags == 7) & (ids == number), structure=np.ones((3, 3)))
        for piece in range(1, count + 1):
            rows, columns = np.nonzero(pieces == piece)
            x, y, right, bottom = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
            edge = x == 0 or y == 0 or right == tags.shape[1] or bottom == tags.shape[0]
            expected.append(Box(light, x, y, right - x, bottom - y, bool(edge), len(rows), int(number)))
    assert sorted(map(astuple, found)) == sorted(map(astuple, expected))


def test_the_mask_is_not_changed():
    mask = mask_of(np.full((4, 4), 14), np.full((4, 4), 3))
    before = mask.copy()
    Annotator().annotate(mask, 1)
    assert (mask == before).all()


def test_a_tag_in_two_classes_and_a_wrong_mask_are_refused():
    with pytest.raises(AnnotationError, match="tag 14 belongs to two classes"):
        Annotator({"car": [14], "truck": [14, 15]})
    with pytest.raises(AnnotationError, match="'bus' is to be split"):
        Annotator({"car": [14]}, split=["bus"])
    with pytest.raises(AnnotationError, match="tag 300"):
        Annotator({"car": [300]})
    with pytest.raises(AnnotationError, match="instance mask"):
        Annotator().annotate(np.zeros((4, 4, 3), np.uint8), 1)
