"""The detector's steps run on a device without values, as those of the classifiers do."""

import pytest
import torch

from fedagem.detection.objective import DetectionObjective
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods import METHODS
from fedagem.learning.methods.fedagem import FedAGEM
from models.tiny_yolo import SameSizePool, TinyYolo
from models.yolo_decode import decode_boxes, encode_boxes, split_head
from tests.fedagem.learning.test_devices import DEVICE, CountsReads, reference, steps

ANCHORS = ((0.5, 0.5), (2.0, 1.0))
DETECTING = {name: method for name, method in METHODS.items() if method.detects and not method.needs_boundaries}


def batches(count, size=4):
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        boxes = torch.full((size, 9, 5), -1.0)
        boxes[:, :2, 0] = torch.randint(2, (size, 2), generator=generator).float()
        boxes[:, :2, 1:] = 0.2 + 0.5 * torch.rand((size, 2, 4), generator=generator)
        x = torch.randint(256, (size, 3, 64, 96), dtype=torch.uint8, generator=generator)
        yield {"x": x, "boxes": boxes}


def make_learner(device, buffer_device, zoom):
    torch.manual_seed(0)
    model = FlatModel(TinyYolo(classes=("car", "sign"), anchors=ANCHORS, input_size=(96, 64), width=0.05).to(device))
    objective = DetectionObjective(anchors=ANCHORS, augmentation={"flip": 0.5, "zoom": zoom, "colour": 0.2})
    return Learner(model, objective, ReplayBuffer(100, device=buffer_device), torch.Generator().manual_seed(1))


@pytest.mark.parametrize("fedagem", [False, True], ids=["plain", "fedagem"])
@pytest.mark.parametrize("name", DETECTING)
def test_no_method_reads_a_number_between_two_batches(name, fedagem):
    # Ideal compares samples by value: its buffer stays on the host. Methods that store logits do not zoom.
    stores_logits = name.startswith("der")
    learner = make_learner(DEVICE, torch.device("cpu") if name == "ideal" else DEVICE, 0.0 if stores_logits else 0.2)
    method = DETECTING[name]()
    if fedagem:
        method = FedAGEM(method)
        learner.notes["g_ref"] = reference(learner)
    with CountsReads() as counter:
        steps(learner, method, batches(3))
    assert counter.reads == []


def test_no_number_is_read_up_to_the_scores_of_an_evaluation():
    """Non-maximum suppression, which comes next, depends on values by nature."""
    learner = make_learner(DEVICE, DEVICE, 0.0)
    learner.model.module.eval()
    (batch,) = batches(1)
    with torch.no_grad(), CountsReads() as counter:
        parts = split_head(learner.logits(learner.to_device(batch)), len(ANCHORS))
        scores = parts.objectness.sigmoid().unsqueeze(-1) * parts.classes.softmax(dim=-1)
        boxes = decode_boxes(parts, torch.tensor(ANCHORS, device=DEVICE))
    assert counter.reads == []
    assert scores.device.type == boxes.device.type == DEVICE.type


def test_slots_that_nobody_uses_do_not_cross_to_the_device():
    learner = make_learner(torch.device("cpu"), None, 0.0)
    (batch,) = batches(1)
    assert learner.to_device(batch)["boxes"].shape == (4, 2, 5)
    batch["boxes"][..., 0] = -1
    assert learner.to_device(batch)["boxes"].shape == (4, 0, 5)
    losses = learner.losses(learner.logits(learner.to_device(batch)), learner.to_device(batch))
    assert losses["box"].item() == losses["classification"].item() == 0
    assert float(losses["confidence"]) > 0


def test_how_many_slots_there_are_changes_nothing():
    learner = make_learner(torch.device("cpu"), None, 0.0)
    (batch,) = batches(1)
    trimmed = learner.to_device(batch)
    head = learner.logits(trimmed)
    whole, few = learner.losses(head, batch), learner.losses(head, trimmed)
    assert {n: float(t) for n, t in whole.items()} == pytest.approx({n: float(t) for n, t in few.items()}, rel=1e-6)
    grid, anchors = (2, 3), torch.tensor(ANCHORS)
    assert (
        encode_boxes(batch["boxes"], anchors, grid).kept.sum()
        == encode_boxes(trimmed["boxes"], anchors, grid).kept.sum()
    )


def test_the_pool_that_keeps_the_size_is_darknets():
    features = torch.randn(2, 3, 5, 7, requires_grad=True)
    padded = torch.nn.functional.pad(features, (0, 1, 0, 1), value=float("-inf"))
    expected = torch.nn.functional.max_pool2d(padded, 2, stride=1)
    assert torch.equal(SameSizePool()(features), expected)
    weight = torch.randn_like(expected)
    ours = torch.autograd.grad((SameSizePool()(features) * weight).sum(), features)[0]
    theirs = torch.autograd.grad((expected * weight).sum(), features)[0]
    torch.testing.assert_close(ours, theirs)
