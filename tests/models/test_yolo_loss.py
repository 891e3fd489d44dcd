"""The loss against a plain implementation with loops, written from the published description."""

import math

import pytest
import torch

from models.yolo_decode import encode_boxes
from models.yolo_loss import YoloLoss

ANCHORS = torch.tensor([[0.4, 0.5], [1.5, 0.7], [1.2, 2.4]], dtype=torch.double)
CLASSES = 4


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def iou(a, b):
    """Boxes as (cx, cy, w, h)."""
    width = min(a[0] + a[2] / 2, b[0] + b[2] / 2) - max(a[0] - a[2] / 2, b[0] - b[2] / 2)
    height = min(a[1] + a[3] / 2, b[1] + b[3] / 2) - max(a[1] - a[3] / 2, b[1] - b[3] / 2)
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (a[2] * a[3] + b[2] * b[3] - width * height)


def plain_loss(head, boxes, anchors, loss):
    """Place by place, object by object; the cases it is given have no two objects in one cell."""
    images, channels, rows, columns = head.shape
    count = len(anchors)
    depth = channels // count
    terms = {"box": 0.0, "confidence": 0.0, "classification": 0.0}
    for n in range(images):
        truths = [row[1:].tolist() for row in boxes[n] if row[0] >= 0]
        labels = [int(row[0]) for row in boxes[n] if row[0] >= 0]
        responsible = {}
        for truth, label in zip(truths, labels, strict=True):
            column, row = int(truth[0] * columns), int(truth[1] * rows)
            fits = [iou((0, 0, truth[2] * columns, truth[3] * rows), (0, 0, *anchor)) for anchor in anchors.tolist()]
            best = max(range(count), key=lambda a: fits[a])
            responsible[best, row, column] = (truth, label)
        for a in range(count):
            for row in range(rows):
                for column in range(columns):
                    tx, ty, tw, th, to, *logits = head[n, a * depth : (a + 1) * depth, row, column].tolist()
                    box = (
                        (column + sigmoid(tx)) / columns,
                        (row + sigmoid(ty)) / rows,
                        anchors[a, 0].item() * math.exp(tw) / columns,
                        anchors[a, 1].item() * math.exp(th) / rows,
                    )
                    confidence = sigmoid(to)
                    if (a, row, column) not in responsible:
                        if max([iou(box, truth) for truth in truths], default=0.0) <= loss.ignore_overlap:
                            terms["confidence"] += loss.background_weight * confidence**2 / 2
                        continue
                    truth, label = responsible[a, row, column]
                    weight = loss.box_weight * (2 - truth[2] * truth[3])
                    terms["box"] += weight / 2 * (sigmoid(tx) - (truth[0] * columns - column)) ** 2
                    terms["box"] += weight / 2 * (sigmoid(ty) - (truth[1] * rows - row)) ** 2
                    terms["box"] += weight / 2 * (tw - math.log(truth[2] * columns / anchors[a, 0].item())) ** 2
                    terms["box"] += weight / 2 * (th - math.log(truth[3] * rows / anchors[a, 1].item())) ** 2
                    terms["confidence"] += loss.object_weight / 2 * (confidence - iou(box, truth)) ** 2
                    exponentials = [math.exp(value) for value in logits]
                    probability = exponentials[label] / sum(exponentials)
                    terms["classification"] -= loss.class_weight * math.log(probability)
    return {name: value / images for name, value in terms.items()}


def random_case(seed, images=3, rows=3, columns=4, objects=4):
    """Head maps and boxes, one object per cell at most; sizes down to a hundredth of a cell."""
    generator = torch.Generator().manual_seed(seed)
    head = torch.randn((images, len(ANCHORS) * (5 + CLASSES), rows, columns), generator=generator).double()
    boxes = torch.zeros((images, objects + 2, 5), dtype=torch.double)
    boxes[..., 0] = -1
    for n in range(images):
        cells = torch.randperm(rows * columns, generator=generator)[:objects]
        offset = torch.rand((objects, 2), generator=generator).double()
        slots = torch.randperm(objects + 2, generator=generator)[: objects - n % 2]
        for slot, cell, within in zip(slots, cells, offset, strict=False):
            size = torch.exp(-5 * torch.rand(2, generator=generator).double())
            centre = (torch.stack([cell % columns, cell // columns]) + within) / torch.tensor([columns, rows])
            label = torch.randint(CLASSES, (1,), generator=generator)
            boxes[n, slot] = torch.cat([label.double(), centre, size])
    return head, boxes


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "loss",
    [
        YoloLoss(),
        YoloLoss(box_weight=2.0, object_weight=3.0, background_weight=0.5, class_weight=1.5, ignore_overlap=0.2),
    ],
)
def test_terms_equal_the_plain_implementation(seed, loss):
    head, boxes = random_case(seed)
    terms = loss(head, boxes, ANCHORS)
    expected = plain_loss(head, boxes, ANCHORS, loss)
    assert {name: float(value) for name, value in terms.items()} == pytest.approx(expected, rel=1e-9)


def test_boxes_that_overlap_enough_are_not_punished_as_background():
    """A second anchor sits right on the object: its objectness must not matter."""
    head = torch.zeros((1, len(ANCHORS) * (5 + CLASSES), 3, 4), dtype=torch.double)
    boxes = torch.tensor([[[2.0, 0.375, 0.5, 1.5 / 4, 0.7 / 3]]], dtype=torch.double)
    depth = 5 + CLASSES
    size = torch.tensor([1.5, 0.7]).double() / ANCHORS[2]
    head[0, 2 * depth + 2 : 2 * depth + 4, 1, 1] = size.log()
    before = YoloLoss()(head, boxes, ANCHORS)["confidence"]
    head[0, 2 * depth + 4, 1, 1] = 5.0
    assert torch.equal(YoloLoss()(head, boxes, ANCHORS)["confidence"], before)
    head[0, 2 * depth + 4, 1, 2] = 5.0
    assert YoloLoss()(head, boxes, ANCHORS)["confidence"] > before + 0.3


@pytest.mark.parametrize("seed", [11, 12])
def test_gradients_agree_with_finite_differences(seed):
    """The IoU that objectness is trained towards is held fixed, as the loss promises not to differentiate it."""
    head, boxes = random_case(seed, images=2, rows=2, columns=3, objects=3)
    head.requires_grad_()
    terms = YoloLoss()(head, boxes, ANCHORS)
    for name in ("box", "classification"):
        assert torch.autograd.gradcheck(
            lambda h, term=name: YoloLoss()(h, boxes, ANCHORS)[term], (head,), fast_mode=True
        )
    (analytic,) = torch.autograd.grad(terms["confidence"], head)
    parts = analytic.unflatten(1, (len(ANCHORS), -1))
    objectness = torch.zeros_like(parts, dtype=torch.bool)
    objectness[:, :, 4] = True
    assert bool((parts[~objectness] == 0).all()), "the target IoU must be detached"
    step = 1e-6
    for place in torch.nonzero(objectness):
        n, a, channel, row, column = place.tolist()
        index = (n, a * (5 + CLASSES) + channel, row, column)
        shifted = []
        for sign in (1, -1):
            moved = head.detach().clone()
            moved[index] += sign * step
            shifted.append(float(YoloLoss()(moved, boxes, ANCHORS)["confidence"]))
        assert (shifted[0] - shifted[1]) / (2 * step) == pytest.approx(float(analytic[index]), abs=1e-7)


def test_frames_without_objects_only_learn_background():
    head = torch.randn(2, len(ANCHORS) * (5 + CLASSES), 3, 4, requires_grad=True)
    for boxes in (torch.full((2, 3, 5), -1.0), torch.zeros(2, 0, 5)):
        terms = YoloLoss()(head, boxes, ANCHORS.float())
        assert terms["box"].item() == 0
        assert terms["classification"].item() == 0
        expected = head.unflatten(1, (3, -1))[:, :, 4].sigmoid().square().sum() / 2 / 2
        assert terms["confidence"].item() == pytest.approx(expected.item(), rel=1e-5)
        (gradient,) = torch.autograd.grad(torch.stack(list(terms.values())).sum(), head)
        assert bool(torch.isfinite(gradient).all())


def test_padding_may_hold_anything():
    head, boxes = random_case(5)
    expected = YoloLoss()(head, boxes, ANCHORS)
    junk = boxes.clone()
    junk[boxes[..., 0] < 0] = torch.tensor([-1, 0.5, 0.5, 0.9, 0.9], dtype=torch.double)
    assert YoloLoss()(head, junk, ANCHORS) == expected


def test_two_objects_of_one_cell_and_anchor_are_both_learned():
    """The better fit has the anchor; the other takes the next best, whatever the order of the boxes."""
    exact = [0, 0.4, 0.4, 0.4 / 4, 0.5 / 3]
    similar = [1, 0.45, 0.45, 0.45 / 4, 0.6 / 3]
    for order in ((exact, similar), (similar, exact)):
        targets = encode_boxes(torch.tensor([order]).double(), ANCHORS, (3, 4))
        assert targets.kept.all()
        assert dict(zip(targets.label.tolist(), targets.anchor.tolist(), strict=True)) == {0: 0, 1: 1}
        assert torch.equal(targets.row, torch.tensor([1, 1]))


def test_more_objects_than_anchors_in_a_cell_are_counted_not_overwritten():
    crowd = torch.tensor([[[0.0, 0.4, 0.4, 0.1 + n / 100, 0.15] for n in range(5)]]).double()
    targets = encode_boxes(crowd, ANCHORS, (3, 4))
    assert targets.kept.sum() == 3
    assert sorted(targets.anchor[targets.kept].tolist()) == [0, 1, 2]


def test_equal_objects_are_served_in_order():
    twin = [0.0, 0.4, 0.4, 0.1, 0.15]
    targets = encode_boxes(torch.tensor([[twin, [1.0, *twin[1:]]]]).double(), ANCHORS, (3, 4))
    assert targets.label[targets.anchor == 0].tolist() == [0]
    assert targets.kept.all()


def test_the_layout_in_memory_does_not_matter():
    head, boxes = random_case(6)
    terms = YoloLoss()(head.to(memory_format=torch.channels_last), boxes, ANCHORS)
    assert {n: float(t) for n, t in terms.items()} == pytest.approx(
        {n: float(t) for n, t in YoloLoss()(head, boxes, ANCHORS).items()}
    )
