"""What a vehicle measures: precision by domain and class, from frames that are decoded once."""

import json

import cv2
import numpy as np
import pytest
import torch

from fedagem.detection.objective import DetectionObjective
from fedagem.errors import DataError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedavg import FedAvg
from models.tiny_yolo import TinyYolo
from src.driving_loader import DrivingLoader

ANCHORS = [[0.5, 0.5], [2.0, 1.0]]
CLASSES = ["vehicle", "bike"]


def write_snippet(folder, frames, bikes=0):
    """So many grey frames with two vehicles each, of which the first few have a bike."""
    folder.mkdir(parents=True)
    images: list[dict[str, object]] = []
    boxes: list[dict[str, object]] = []
    random = np.random.default_rng(frames)
    for number in range(frames):
        name = f"{number}.png"
        cv2.imwrite(str(folder / name), random.integers(0, 255, (64, 96, 3), dtype=np.uint8))
        images.append({"id": number, "file_name": name, "width": 96, "height": 64, "frame": number})
        kinds = [1, 1] + [2] * (number < bikes)
        boxes += [
            {"id": len(boxes) + k, "image_id": number, "category_id": kind, "bbox": [5 + 30 * k, 20, 24, 20]}
            for k, kind in enumerate(kinds)
        ]
    categories = [{"id": n, "name": name} for n, name in enumerate(CLASSES, start=1)]
    document = {"images": images, "annotations": boxes, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(document))


@pytest.fixture
def drives(tmp_path):
    for domain, bikes in (("city", 6), ("highway", 0)):
        for number in (1, 2):
            write_snippet(tmp_path / domain / str(number), 8 + number, bikes)
    return tmp_path


def loader_of(drives, vehicle="vehicle_1", **evaluation):
    paths = {domain: [str(drives / domain)] for domain in ("city", "highway")}
    return DrivingLoader(
        vehicle,
        seed=0,
        classes=CLASSES,
        input_size=[96, 64],
        seconds_per_round=4,
        vehicles=["vehicle_1", "vehicle_2"],
        snippets={name: [{"paths": [str(drives / "city")]}] for name in ("vehicle_1", "vehicle_2")},
        evaluation={"paths": paths, **evaluation},
    )


def evaluate(loader):
    torch.manual_seed(0)
    model = TinyYolo(classes=CLASSES, anchors=ANCHORS, input_size=[96, 64], width=0.05)
    learner = Learner(FlatModel(model), DetectionObjective(anchors=ANCHORS), ReplayBuffer(0), torch.Generator())
    return loader.evaluate(learner, FedAvg()).metrics


def test_precision_is_measured_by_domain_and_class(drives):
    metrics = evaluate(loader_of(drives, least_objects=20))
    assert {name for name in metrics if name.startswith(("map", "drawn"))} == {
        "map_50/all",
        "map_50/city",
        "map_50/highway",
        "map/all",
        "map/city",
        "map/highway",
        "drawn/map_50/city",
        "drawn/map_50/highway",
        "drawn/ap_50/city/vehicle",
        "drawn/ap_50/highway/vehicle",
    }
    assert metrics["objects/city/vehicle"] == 2 * (9 + 10)
    assert metrics["objects/city/bike"] == 12
    assert metrics["map_50/city"] == metrics["ap_50/city/vehicle"], "twelve bikes are too few for the mean"
    assert "ap_50/city/bike" in metrics
    assert "ap_50/highway/bike" not in metrics, "there is nothing to find"
    drawn = metrics["drawn/map_50/city"]
    assert len(drawn) == 1000
    assert min(drawn) <= metrics["map_50/city"] <= max(drawn)


def test_only_the_first_vehicle_scores(drives):
    assert evaluate(loader_of(drives, vehicle="vehicle_2")) == {}


def test_frames_are_decoded_once(drives):
    loader = loader_of(drives)
    first = evaluate(loader)
    for picture in drives.rglob("*.png"):
        picture.unlink()
    assert evaluate(loader) == first


def test_frames_that_do_not_fit_are_decoded_again(drives):
    loader = loader_of(drives, keep_megabytes=0)
    first = evaluate(loader)
    assert evaluate(loader) == first
    next(iter(sorted(drives.rglob("*.png")))).unlink()
    with pytest.raises(DataError, match="the evaluation frames cannot be read"):
        evaluate(loader)


def test_every_third_frame_is_scored(drives):
    metrics = evaluate(loader_of(drives, every=3))
    assert metrics["objects/highway/vehicle"] == 2 * (3 + 4)
