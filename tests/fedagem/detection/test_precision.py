"""mAP against cases worked out by hand."""

import pytest
import torch

from fedagem.detection.precision import DetectionEvaluator
from models.detections import Detections
from models.letterbox import Letterbox

CLASSES = ("car", "bike", "sign")
FRAME = Letterbox((200, 100), (200, 100))


def score(truths, found, *, min_size=0.0, letterbox=FRAME):
    """Truths per image as (class, x1, y1, x2, y2) in pixels, detections as (score, class, x1, y1, x2, y2)."""
    evaluator = DetectionEvaluator(CLASSES, min_size)
    most = max([len(rows) for rows in truths], default=0)
    boxes = torch.full((len(truths), most, 5), -1.0)
    for n, rows in enumerate(truths):
        for slot, (label, *corners) in enumerate(rows):
            x1, y1, x2, y2 = letterbox.to_input(torch.tensor(corners).float())
            boxes[n, slot] = torch.tensor([label, (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1])
    rows = [(n, *row) for n, image in enumerate(found) for row in sorted(image, reverse=True)]
    table = torch.tensor(rows, dtype=torch.float).reshape(-1, 7)
    detections = Detections(table[:, 0].long(), letterbox.to_input(table[:, 3:]), table[:, 1], table[:, 2].long())
    evaluator.add(detections, boxes, letterbox)
    return evaluator.scored().scores(sizes=True)


CAR = (0, 10, 10, 60, 60)
BIKE = (1, 100, 20, 150, 70)


def test_perfect_detections_score_one():
    scores = score([[CAR, BIKE], [CAR]], [[(0.9, *CAR), (0.8, *BIKE)], [(0.7, *CAR)]])
    assert scores.map_50 == pytest.approx(1.0)
    assert scores.map == pytest.approx(1.0)
    assert scores.frames == 2
    assert scores.objects == 3


def test_a_false_alarm_above_the_hit_halves_precision():
    """Precision at every recall is 1/2: the hit comes second."""
    scores = score([[CAR]], [[(0.9, 0, 120, 20, 150, 60), (0.6, *CAR)]])
    assert scores.map_50 == pytest.approx(0.5)


def test_half_the_objects_found_is_half_the_recall_axis():
    """Recall stops at 1/2: 51 of COCO's 101 recall points have precision 1, the others 0."""
    scores = score([[CAR], [CAR]], [[(0.9, *CAR)], []])
    assert scores.map_50 == pytest.approx(51 / 101)


def test_overlap_decides_between_the_two_means():
    """An IoU of 50x39 / 50x50 = 0.78 is a hit at the six thresholds from 0.5 to 0.75 and at none of the other four."""
    scores = score([[CAR]], [[(0.9, 0, 10, 10, 60, 49)]])
    assert scores.map_50 == pytest.approx(1.0)
    assert scores.map == pytest.approx(0.6)


def test_a_second_detection_of_one_object_is_a_false_alarm():
    """Ranking: hit, duplicate, hit. Precision 1 up to recall 1/2, then 2/3."""
    near = (0, 11, 10, 61, 60)
    scores = score([[CAR], [CAR]], [[(0.9, *CAR), (0.8, *near)], [(0.7, *CAR)]])
    assert scores.map_50 == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_the_wrong_class_is_no_hit():
    scores = score([[CAR, BIKE]], [[(0.9, 1, *CAR[1:]), (0.8, *BIKE)]])
    assert scores.per_class["car"].map_50 == pytest.approx(0.0)
    assert scores.per_class["bike"].map_50 == pytest.approx(0.5)
    assert scores.map_50 == pytest.approx(0.25)


def test_absent_classes_are_left_out_of_the_mean():
    scores = score([[CAR]], [[(0.9, *CAR), (0.8, *BIKE)]])
    assert scores.per_class["bike"].map_50 is None
    assert scores.per_class["sign"].map is None
    assert scores.per_class["bike"].objects == 0
    assert scores.map_50 == pytest.approx(1.0)


def test_detections_on_an_empty_frame_are_false_alarms():
    """Ranking: alarm, hit: precision 1/2 everywhere."""
    scores = score([[], [CAR]], [[(0.95, *CAR)], [(0.9, *CAR)]])
    assert scores.map_50 == pytest.approx(0.5)


def test_only_empty_frames_have_no_score():
    for alarms in (0, 1):
        scores = score([[], []], [[(0.9, *CAR)] * alarms, []])
        assert scores.map_50 is None
        assert scores.map is None
        assert all(part.map is None for part in (*scores.per_class.values(), *scores.per_size.values()))
        assert scores.frames == 2


def test_nothing_found_scores_zero_and_not_minus_one():
    scores = score([[CAR], []], [[], []])
    assert scores.map_50 == 0.0
    assert scores.per_class["car"].map == 0.0
    assert scores.per_class["bike"].map is None


def test_sizes_are_those_of_the_frame_and_not_of_the_input():
    """A 20x20 object is small, even where the network sees it three times as large."""
    letterbox = Letterbox((64, 32), (192, 96))
    scores = score([[(0, 5, 5, 25, 25)]], [[(0.9, 0, 5, 5, 25, 25)]], letterbox=letterbox)
    assert scores.per_size["small"].map_50 == pytest.approx(1.0)
    assert scores.per_size["medium"].map_50 is None
    assert scores.per_size["large"].map is None


TINY = (0, 100, 50, 105, 90)


def test_objects_under_the_minimum_size_are_neither_wanted_nor_punished():
    missed = score([[CAR, TINY]], [[(0.9, *CAR)]], min_size=16)
    assert missed.map_50 == pytest.approx(1.0)
    assert missed.objects == 1
    hit = score([[CAR, TINY]], [[(0.95, *TINY), (0.9, *CAR)]], min_size=16)
    assert hit.map_50 == pytest.approx(1.0)
    assert score([[CAR, TINY]], [[(0.9, *CAR)]]).map_50 == pytest.approx(51 / 101)


def test_small_detections_count_when_they_hit_an_object_that_is_large_enough():
    just_large_enough = (0, 100, 50, 117, 90)
    slightly_smaller = (0.9, 0, 100, 50, 115, 90)
    assert score([[just_large_enough]], [[slightly_smaller]], min_size=16).map_50 == pytest.approx(1.0)
    elsewhere = (0.95, 0, 150, 50, 160, 90)
    scores = score([[just_large_enough]], [[slightly_smaller, elsewhere]], min_size=16)
    assert scores.map_50 == pytest.approx(1.0), "a small false alarm is beyond the question"
    large_alarm = (0.95, 0, 20, 20, 60, 60)
    scores = score([[just_large_enough]], [[slightly_smaller, large_alarm]], min_size=16)
    assert scores.map_50 == pytest.approx(0.5)


def test_many_detections_are_counted_up_to_a_hundred():
    alarms = [(0.9 - n / 1000, 0, n, 70, n + 20, 95) for n in range(99)]
    assert score([[CAR]], [[*alarms, (0.1, *CAR)]]).map_50 == pytest.approx(1 / 100)


def test_batches_add_up():
    evaluator = DetectionEvaluator(CLASSES)
    for score_of_hit in (0.9, 0.3):
        boxes = torch.tensor([[[0, 0.2, 0.2, 0.2, 0.2]]])
        found = torch.tensor([[0.1, 0.1, 0.3, 0.3]])
        evaluator.add(
            Detections(torch.tensor([0]), found, torch.tensor([score_of_hit]), torch.tensor([0])), boxes, FRAME
        )
    assert evaluator.scored().scores().frames == 2
    assert evaluator.scored().scores().map_50 == pytest.approx(1.0)
