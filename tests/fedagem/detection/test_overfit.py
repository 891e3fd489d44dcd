"""If the network, the loss, the decoding and the evaluation agree with each other, few frames are learned by heart."""

import numpy as np
import pytest
import torch

from fedagem.detection.anchors import cluster_anchors
from fedagem.detection.footage import NamedFrame
from fedagem.detection.inference import score, scoring_batches
from fedagem.detection.objective import DetectionObjective
from fedagem.detection.samples import make_batch
from models.tiny_yolo import TinyYolo

CHECK_EVERY = 20


def learn_by_heart(frames, classes, size, width, *, rate, steps, wanted):
    """mAP@0.5 on the training frames, as soon as it exceeds `wanted` or after `steps`."""
    batch = make_batch(frames, size, max_boxes=16)
    boxes = batch["boxes"][batch["boxes"][..., 0] >= 0]
    anchors = cluster_anchors(boxes[:, 3:] * torch.tensor(size), 5).sizes
    torch.manual_seed(0)
    model, objective = (
        TinyYolo(classes=classes, anchors=anchors, input_size=size, width=width),
        DetectionObjective(anchors=anchors),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    reached = 0.0
    for step in range(1, steps + 1):
        model.train()
        terms = objective.losses(objective.logits(model, batch), batch)
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimizer.step()
        if step % CHECK_EVERY == 0:
            reached = score(model, objective, scoring_batches(frames, size)).overall.scores().map_50 or 0.0
            if reached > wanted:
                break
    return reached


def shapes(count, seed):
    """Bright rectangles of three kinds on noise: tall red, wide green, square blue."""
    random = np.random.default_rng(seed)
    for number in range(count):
        image = random.integers(0, 90, (96, 160, 3), dtype=np.uint8)
        boxes = []
        for label, (w, h) in enumerate([(14, 30), (40, 16), (24, 24)]):
            x, y = 53 * label + int(random.integers(0, 53 - w)), int(random.integers(0, 96 - h))
            image[y : y + h, x : x + w, label] = 240
            boxes.append([x, y, w, h])
        yield NamedFrame(image, str(number), np.array(boxes, dtype=np.float32), np.arange(3))


def test_it_learns_synthetic_shapes_by_heart():
    frames = list(shapes(8, seed=1))
    assert learn_by_heart(frames, ("tall", "wide", "square"), (160, 96), 0.2, rate=4e-3, steps=160, wanted=0.9) > 0.9


def test_it_learns_sixteen_real_carla_frames_by_heart(data_pack):
    """Frames of Town02 with at least two objects of 16 pixels and more, spread over the drive."""
    snippets = pytest.importorskip("carla_bridge.snippets", reason="needs the reader of recorded drives")
    source = snippets.SnippetSource([data_pack("carla_snippets") / "Town02"])
    frames = []
    for frame in source.frames():
        large = (frame.boxes[:, 2:] >= 16).all(axis=1)
        if large.sum() >= 2:
            frames.append(NamedFrame(frame.image, str(frame.frame), frame.boxes[large], frame.labels[large]))
    frames = frames[:: len(frames) // 16][:16]
    assert len(frames) == 16
    assert learn_by_heart(frames, source.classes, (256, 160), 0.15, rate=4e-3, steps=160, wanted=0.9) > 0.9
