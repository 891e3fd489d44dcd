"""Our precision against torchmetrics with a COCO back end, on random frames."""

import numpy as np
import pytest
import torch
from torchmetrics.detection import MeanAveragePrecision

from fedagem.detection.precision import BLOCK, DRAWS, DetectionEvaluator
from fedagem.detection.ranking import draw_frames
from models.detections import Detections
from models.letterbox import Letterbox

CLASSES = ("car", "bike", "sign", "light")
SIZE = (256, 128)
"""Powers of two: whole pixels come back exactly, also as parts of the width and height."""
FRAME = Letterbox(SIZE, SIZE)


def random_frames(seed, frames, crowded=False, whole=True):
    """Truth boxes, and detections that are mostly moved copies of them; whole pixels make overlaps and scores equal."""
    random = np.random.default_rng(seed)
    truths, found = [], []
    for _ in range(frames):
        count = random.integers(0, 25 if crowded else 6)
        place = random.uniform(0, 120 if crowded else 280, (count, 2))
        truth = np.concatenate([place, place + random.uniform(4, 110 if crowded else 60, (count, 2))], axis=1)
        label = random.integers(0, len(CLASSES) - 1, count)
        copies = np.repeat(truth, random.integers(0, 4, count), axis=0)
        copies += random.normal(0, 4, copies.shape)
        alarms = random.uniform(0, 150, (random.integers(0, 8), 2))
        alarms = np.concatenate([alarms, alarms + random.uniform(3, 50, alarms.shape)], axis=1)
        boxes = np.concatenate([copies, alarms])
        labels = random.integers(0, len(CLASSES), len(boxes))
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 1)
        if whole:
            truth, boxes = np.round(truth), np.round(boxes)
            truth[:, 2:] = np.maximum(truth[:, 2:], truth[:, :2] + 1)
        scores = random.integers(1, 40, len(boxes)) / 40 if whole else random.random(len(boxes))
        best_first = np.argsort(-scores, kind="stable")
        truths.append((label, truth))
        found.append((scores[best_first], labels[best_first], boxes[best_first]))
    return truths, found


def evaluator_of(truths, found, min_size=0.0, least_objects=1):
    evaluator = DetectionEvaluator(CLASSES, min_size, least_objects)
    most = max(len(label) for label, _ in truths)
    boxes = torch.full((len(truths), most, 5), -1.0, dtype=torch.float64)
    for number, (label, truth) in enumerate(truths):
        corners = FRAME.to_input(torch.tensor(truth))
        boxes[number, : len(label), 0] = torch.tensor(label)
        boxes[number, : len(label), 1:3] = (corners[:, :2] + corners[:, 2:]) / 2
        boxes[number, : len(label), 3:] = corners[:, 2:] - corners[:, :2]
    image = torch.tensor([number for number, (scores, _, _) in enumerate(found) for _ in scores])
    detections = Detections(
        image,
        FRAME.to_input(torch.tensor(np.concatenate([boxes for *_, boxes in found]))),
        torch.tensor(np.concatenate([scores for scores, *_ in found])),
        torch.tensor(np.concatenate([labels for _, labels, _ in found])),
    )
    evaluator.add(detections, boxes, FRAME)
    return evaluator


def reference(truths, found, min_size=0.0):
    metric = MeanAveragePrecision(
        iou_thresholds=np.linspace(0.5, 0.95, 10).tolist(),
        rec_thresholds=np.linspace(0.0, 1.0, 101).tolist(),
        max_detection_thresholds=[1, 10, 100],
        extended_summary=True,
        backend="faster_coco_eval",
    )
    metric.warn_on_many_detections = False
    for (label, truth), (scores, labels, boxes) in zip(truths, found, strict=True):
        small = (truth[:, 2:] - truth[:, :2]).min(axis=1, initial=np.inf) < min_size
        inside = np.clip(boxes, 0, [*SIZE, *SIZE])
        metric.update(
            [{"boxes": torch.tensor(inside), "scores": torch.tensor(scores), "labels": torch.tensor(labels)}],
            [{"boxes": torch.tensor(truth), "labels": torch.tensor(label), "iscrowd": torch.tensor(small).long()}],
        )
    return metric.compute()


@pytest.mark.parametrize("whole", [True, False], ids=["equal overlaps and scores", "all different"])
@pytest.mark.parametrize("crowded", [False, True], ids=["few objects", "many objects"])
@pytest.mark.parametrize("seed", range(4))
def test_precision_is_cocos(seed, crowded, whole):
    truths, found = random_frames(seed, 40, crowded, whole)
    scores = evaluator_of(truths, found).scored().scores(sizes=True)
    expected = reference(truths, found)
    assert scores.map == pytest.approx(float(expected["map"]), abs=1e-6)
    assert scores.map_50 == pytest.approx(float(expected["map_50"]), abs=1e-6)
    precision = expected["precision"][..., 0, -1].mean(dim=1)
    for number, label in enumerate(expected["classes"].tolist()):
        mine = scores.per_class[CLASSES[label]]
        if precision[0, number] < 0:
            assert mine.map_50 is None
            continue
        assert mine.map_50 == pytest.approx(float(precision[0, number]), abs=1e-6)
        assert mine.map == pytest.approx(float(precision[:, number].mean()), abs=1e-6)
    for size in ("small", "medium", "large"):
        theirs = float(expected[f"map_{size}"])
        assert scores.per_size[size].map == (None if theirs < 0 else pytest.approx(theirs, abs=1e-6))


@pytest.mark.parametrize("seed", range(3))
def test_objects_that_are_too_small_are_cocos_crowds(seed):
    """Without small detections, which we leave out and COCO would count."""
    truths, found = random_frames(seed, 40, crowded=True)
    for number, (scores, labels, boxes) in enumerate(found):
        inside = np.clip(boxes, 0, [*SIZE, *SIZE])
        large = (inside[:, 2:] - inside[:, :2]).min(axis=1, initial=np.inf) >= 12
        found[number] = (scores[large], labels[large], boxes[large])
    scores = evaluator_of(truths, found, min_size=12).scored().scores()
    expected = reference(truths, found, min_size=12)
    assert scores.map_50 == pytest.approx(float(expected["map_50"]), abs=1e-6)
    assert scores.map == pytest.approx(float(expected["map"]), abs=1e-6)


def test_a_draw_is_the_precision_of_the_frames_drawn():
    truths, found = random_frames(7, 60, whole=False)
    scored = evaluator_of(truths, found).scored()
    means, per_class = scored.resampled(seed=5)
    again, _ = scored.resampled(seed=5)
    assert np.array_equal(means, again)
    assert len(means) == DRAWS
    draws = draw_frames(60, BLOCK, DRAWS, 5)
    for number in (0, 3, 11):
        chosen = np.repeat(np.arange(60), draws[:, number])
        drawn = evaluator_of([truths[n] for n in chosen], [found[n] for n in chosen]).scored().scores()
        assert means[number] == pytest.approx(drawn.map_50, abs=1.5 / 101)
        assert per_class["car"][number] == pytest.approx(drawn.per_class["car"].map_50, abs=1.5 / 101)


def test_intervals_are_as_wide_as_precision_varies():
    """95 % of the draws around one set of frames cover the precision on 19 of 20 other sets."""
    inside = 0
    centre = np.mean([evaluator_of(*random_frames(s, 100, whole=False)).scored().scores().map_50 for s in range(40)])
    for seed in range(20):
        means, _ = evaluator_of(*random_frames(100 + seed, 100, whole=False)).scored().resampled(seed=1)
        low, high = np.quantile(means, [0.025, 0.975])
        inside += low <= centre <= high
    assert inside >= 16


def test_classes_with_few_objects_are_scored_but_not_averaged():
    truths, found = random_frames(3, 50)
    counts = np.bincount(np.concatenate([label for label, _ in truths]), minlength=len(CLASSES))
    least = int(np.sort(counts)[-2]) + 1
    scores = evaluator_of(truths, found, least_objects=least).scored().scores()
    [name] = [name for name, part in scores.per_class.items() if part.averaged]
    assert scores.map_50 == scores.per_class[name].map_50
    assert all(part.map_50 is not None for name, part in scores.per_class.items() if part.objects)
    assert evaluator_of(truths, found, least_objects=10_000).scored().scores().map_50 is None
