import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.ops import box_convert

from models.letterbox import GREY, Letterbox
from models.yolo_decode import decode_boxes, detect, encode_boxes, split_head

ANCHORS = torch.tensor([[0.1, 0.2], [0.5, 0.5], [1.5, 0.7], [1.2, 2.3], [3.4, 2.8]], dtype=torch.double)
CLASSES = 3
GRID = (4, 6)


def place_of(targets):
    return tuple(part[targets.kept] for part in targets.place)


def head_of(targets, images):
    """The raw map that says exactly what the targets want."""
    rows, columns = GRID
    head = torch.full((images, len(ANCHORS), 5 + CLASSES, rows, columns), -20.0, dtype=torch.double)
    n, a, r, c = place_of(targets)
    head[n, a, 0:2, r, c] = torch.logit(targets.offset[targets.kept])
    head[n, a, 2:4, r, c] = targets.scale[targets.kept]
    head[n, a, 4, r, c] = 20.0
    head[n, a, 5 + targets.label[targets.kept], r, c] = 20.0
    return head.flatten(1, 2)


sides = st.floats(0.002, 1.0)
centres = st.floats(0.0, 1.0)
objects = st.lists(st.tuples(st.integers(0, CLASSES - 1), centres, centres, sides, sides), max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.lists(objects, min_size=1, max_size=3))
def test_decoding_what_was_encoded_gives_the_boxes_back(frames):
    """Up to five objects find five anchors even in one cell; a centre may lie on the border of cells."""
    boxes = torch.full((len(frames), 5, 5), -1.0, dtype=torch.double)
    for n, rows in enumerate(frames):
        if rows:
            boxes[n, : len(rows)] = torch.tensor(rows, dtype=torch.double)
    targets = encode_boxes(boxes, ANCHORS, GRID)
    assert int(targets.kept.sum()) == sum(map(len, frames))
    decoded = decode_boxes(split_head(head_of(targets, len(frames)), len(ANCHORS)), ANCHORS)[place_of(targets)]
    image, label = targets.image[targets.kept], targets.label[targets.kept]
    found = torch.cat([image[:, None], label[:, None], decoded], dim=1)
    given_rows = [[n, *row] for n, rows in enumerate(frames) for row in rows]
    wanted = torch.tensor(given_rows, dtype=torch.double).reshape(-1, 6)
    assert torch.allclose(found, wanted, atol=1e-9)


def test_detections_are_the_encoded_objects():
    boxes = torch.tensor(
        [
            [[0, 0.3, 0.3, 0.2, 0.1], [2, 0.7, 0.6, 0.3, 0.5], [1, 0.72, 0.6, 0.3, 0.5]],
            [[-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0]],
            [[1, 0.5, 0.5, 0.02, 0.02], [-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0]],
        ]
    ).double()
    found = detect(head_of(encode_boxes(boxes, ANCHORS, GRID), 3), ANCHORS, confidence=0.5, overlap=0.45)
    assert sorted(zip(found.image.tolist(), found.labels.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 2), (2, 1)]
    order = {(n, c): i for i, (n, c) in enumerate(zip(found.image.tolist(), found.labels.tolist(), strict=True))}
    small = box_convert(boxes[2, 0, 1:], "cxcywh", "xyxy").float()
    assert torch.allclose(found.boxes[order[2, 1]], small, atol=1e-5)
    assert bool((found.scores > 0.99).all())


def test_overlapping_boxes_of_one_class_become_one_and_the_best_wins():
    same = torch.tensor([[[0, 0.3, 0.3, 0.2, 0.3], [0, 0.31, 0.3, 0.2, 0.3]]]).double()
    targets = encode_boxes(same, ANCHORS, GRID)
    head = head_of(targets, 1)
    head[0, int(targets.anchor[0]) * (5 + CLASSES) + 4, int(targets.row[0]), int(targets.column[0])] = 1.0
    found = detect(head, ANCHORS, confidence=0.5, overlap=0.45)
    assert len(found.scores) == 1
    assert float(found.scores[0]) > 0.99
    assert len(detect(head, ANCHORS, confidence=0.5, overlap=0.95).scores) == 2


def test_limit_keeps_the_best_of_every_image():
    head = torch.randn(3, len(ANCHORS) * (5 + CLASSES), *GRID)
    everything = detect(head, ANCHORS, confidence=0.01, overlap=0.9, limit=1000)
    few = detect(head, ANCHORS, confidence=0.01, overlap=0.9, limit=7)
    assert torch.bincount(few.image).tolist() == [7, 7, 7]
    for n in range(3):
        best = everything.scores[everything.image == n].sort(descending=True).values[:7]
        assert torch.equal(few.scores[few.image == n], best)


def test_nothing_above_the_threshold_is_no_detection():
    head = torch.full((2, len(ANCHORS) * (5 + CLASSES), *GRID), -9.0)
    assert len(detect(head, ANCHORS, confidence=0.5, overlap=0.5).scores) == 0


frame_sides = st.integers(20, 900)
input_sides = st.integers(1, 13).map(lambda cells: 32 * cells)


@settings(max_examples=150, deadline=None)
@given(st.tuples(frame_sides, frame_sides), st.tuples(input_sides, input_sides), st.data())
def test_letterbox_and_back_is_the_identity(frame_size, input_size, data):
    letterbox = Letterbox(frame_size, input_size)
    corner = st.tuples(st.floats(0, frame_size[0]), st.floats(0, frame_size[1]))
    points = data.draw(st.lists(st.tuples(corner, corner), min_size=1, max_size=4))
    boxes = torch.tensor([[*a, *b] for a, b in points], dtype=torch.double)
    inside = letterbox.to_input(boxes)
    assert torch.allclose(letterbox.to_frame(inside), boxes, atol=1e-6)
    assert bool(((inside >= 0) & (inside <= 1)).all())


def test_boxes_follow_the_pixels_through_the_letterbox():
    frame = torch.zeros((1, 3, 380, 640), dtype=torch.uint8)
    frame[:, :, 100:200, 300:500] = 255
    letterbox = Letterbox((640, 380), (416, 256))
    image = letterbox.images(frame)
    assert image.shape == (1, 3, 256, 416)
    assert image.dtype == torch.uint8
    assert bool((image[:, :, :4] == GREY).all())
    x1, y1, x2, y2 = (
        letterbox.to_input(torch.tensor([300.0, 100.0, 500.0, 200.0])) * torch.tensor([416.0, 256.0, 416.0, 256.0])
    ).tolist()
    bright = torch.nonzero(image[0, 0] > 200)
    top, left = bright.amin(dim=0).tolist()
    bottom, right = (bright.amax(dim=0) + 1).tolist()
    assert abs(left - x1) <= 1
    assert abs(right - x2) <= 1
    assert abs(top - y1) <= 1
    assert abs(bottom - y2) <= 1
