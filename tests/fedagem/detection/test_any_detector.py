"""Other detectors behind the interface: SSDLite, and the one that docs/detector.md shows."""

import re

import numpy as np
import pytest
import torch
from torchvision.ops import box_convert

from carla_bridge.frames import Annotations, Box, Frame
from fedagem.detection.any_detector import DetectorObjective
from fedagem.detection.augment import Augmentation
from fedagem.detection.inference import score, scoring_batches
from fedagem.detection.objective import DetectionObjective
from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.agem import AGEM
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.er import ER
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.trainer import Trainer, TrainingSettings
from fedagem.plans.detectors import with_detector
from fedagem.plans.plan import Plan
from models.detections import select
from models.detector import AnyDetector
from models.ssdlite import SSDLite

CLASSES, SIZE = ("car", "sign"), (96, 64)
METHODS = {"fedavg": FedAvg, "agem": AGEM, "er": ER, "der": DER}


def batch(seed=0, size=2):
    generator = torch.Generator().manual_seed(seed)
    boxes = torch.full((size, 3, 5), -1.0)
    boxes[:, :2, 0] = torch.randint(2, (size, 2), generator=generator).float()
    boxes[:, :2, 1:] = 0.3 + 0.3 * torch.rand((size, 2, 4), generator=generator)
    boxes[-1] = -1.0  # the last frame is empty
    return {"x": torch.randint(256, (size, 3, 64, 96), dtype=torch.uint8, generator=generator), "boxes": boxes}


@pytest.fixture(scope="module")
def documented(repository):
    """The class that the documentation shows, from its text."""
    text = (repository / "docs" / "detector.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "AnyDetector" in block]
    assert len(code.strip().splitlines()) <= 46
    names: dict[str, type[AnyDetector]] = {}
    exec(compile(code, "docs/detector.md", "exec"), names)
    return names["Cells"]


@pytest.fixture
def build(documented):
    def learner(name):
        torch.manual_seed(0)
        network = (SSDLite if name == "ssdlite" else documented)(classes=list(CLASSES), input_size=list(SIZE))
        objective = DetectorObjective(augmentation={"flip": 0.0, "zoom": 0.0, "colour": 0.1})
        objective.attach(network)
        return Learner(FlatModel(network), objective, ReplayBuffer(20), torch.Generator().manual_seed(0))

    return learner


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("network", ["ssdlite", "documented"])
def test_every_method_trains_it_with_and_without_g_ref(build, network, method):
    client = build(network)
    client.objective.augmentation = Augmentation(flip=0.0, zoom=0.0, colour=0.0)  # g_ref sees the frames as they are
    settings = {} if method is FedAvg else {"replay_batch": 2}
    optimizer = torch.optim.SGD([client.model.weights], lr=1e-3)
    report = client_update(client, [batch(0)], method(**settings), optimizer)
    assert {"box", "classification"} <= set(report.losses())
    g_ref = FedAGEM(FedAvg(), samples=2).buffer_gradient(client)
    assert g_ref is not None
    client.received = {"g_ref": -g_ref["g_ref"]}
    report = client_update(client, [batch(0)], FedAGEM(method(**settings)), optimizer)
    assert report.refined == 1 or method is not FedAvg, "g_ref points against the gradient of its own two frames"
    assert bool(torch.isfinite(client.model.weights).all())
    assert ("logits" in client.buffer.contents()) == (method is DER)


@pytest.mark.parametrize("network", ["ssdlite", "documented"])
def test_it_learns_a_frame_and_finds_its_objects(build, network):
    """SSDLite's BatchNorm sees two frames at a time, so it is judged in training mode."""
    client = build(network)
    one = batch(3)
    model, objective = client.model.module, client.objective
    assert isinstance(objective, DetectorObjective)
    optimizer = torch.optim.Adam([client.model.weights], lr=0.01 if network == "documented" else 0.002)
    losses = []
    for _ in range(120 if network == "documented" else 12):
        losses.append(sum(float(v) for v in client.backward(client.losses(client.logits(one), one)).values()))
        optimizer.step()
    assert losses[-1] < (0.3 if network == "documented" else 0.7) * losses[0]
    with torch.no_grad():
        found = objective.detections(objective.logits(model, one), 0.3)
    assert bool(((found.boxes >= 0) & (found.boxes <= 1)).all())
    assert network == "ssdlite" or 0 in found.image.tolist()


def test_ssdlites_losses_and_detections_are_those_of_torchvision():
    torch.manual_seed(0)
    network = SSDLite(classes=list(CLASSES), input_size=list(SIZE))
    one = batch(4)
    images = one["x"].float() / 255
    pixels = [
        box_convert(rows[rows[:, 0] >= 0, 1:], "cxcywh", "xyxy") * torch.tensor(SIZE * 2) for rows in one["boxes"]
    ]
    labels = [rows[rows[:, 0] >= 0, 0].long() + 1 for rows in one["boxes"]]
    theirs = network.ssd(list(images), [{"boxes": b, "labels": n} for b, n in zip(pixels, labels, strict=True)])
    mine = network.losses(network(images), one["boxes"])
    torch.testing.assert_close(mine["box"], theirs["bbox_regression"])
    torch.testing.assert_close(mine["classification"], theirs["classification"])

    network.eval()
    everything = 10_000
    network.ssd.score_thresh, network.ssd.nms_thresh = 0.3, 0.45
    network.ssd.topk_candidates = network.ssd.detections_per_img = everything
    with torch.no_grad():
        raw = network(images)
        wanted = network.ssd(list(images))[0]
    assert raw.shape == (2, len(network.anchors), 5 + len(CLASSES))
    found = select(network.candidates(raw), confidence=0.3, overlap=0.45, limit=everything, considered=everything)
    first = found.image == 0
    assert int(first.sum()) == len(wanted["scores"]) > 5
    torch.testing.assert_close(found.scores[first], wanted["scores"])
    torch.testing.assert_close(found.boxes[first] * torch.tensor(SIZE * 2), wanted["boxes"], atol=1e-3, rtol=0)


def test_frames_are_scored(build):
    client = build("documented")
    frames = [Frame(np.zeros((64, 96, 3), np.uint8), 0, 0.0, Annotations.of([Box(0, 10, 10, 30, 20)]))]
    model = client.model.module
    assert isinstance(model, AnyDetector)
    assert isinstance(client.objective, DetectorObjective)
    scored = score(model, client.objective, scoring_batches(frames, SIZE, domain="city"))
    assert scored.domains["city"].scores().objects == 1


class Growing(SSDLite):
    """Its outputs have no fixed size."""

    fixed_head = False


def settings_of(template, method, **augmentation):
    return TrainingSettings.model_validate(
        {
            "model": {"template": template, "settings": {"classes": list(CLASSES), "input_size": list(SIZE)}},
            "objective": {
                "template": "fedagem.detection.any_detector.DetectorObjective",
                "settings": {"augmentation": {"flip": 0.0, "zoom": 0.0, "colour": 0.0, **augmentation}},
            },
            "optimizer": {"lr": 0.01},
            "method": method,
        }
    )


def test_what_cannot_be_stored_is_refused_with_the_reason():
    growing = f"{__name__}.Growing"
    with pytest.raises(PlanError, match="those of Growing have no fixed size: use fedavg, agem, er"):
        Trainer.build(settings_of(growing, "der"), 0)
    with pytest.raises(PlanError, match=r"cannot use flip 0\.5 with SSDLite"):
        Trainer.build(settings_of("models.ssdlite.SSDLite", "derpp", flip=0.5), 0)
    assert Trainer.build(settings_of(growing, "er"), 0).objective is not None
    with pytest.raises(PlanError, match="makes a TinyYolo, but this objective is for"):
        Trainer.build(settings_of("models.tiny_yolo.TinyYolo", "er"), 0)


def test_a_missing_weight_file_is_named(tmp_path):
    settings = settings_of("models.ssdlite.SSDLite", "er")
    model = settings.model.model_copy(
        update={"settings": {**settings.model.settings, "weights": str(tmp_path / "mobilenet.pth")}}
    )
    with pytest.raises(PlanError, match=r"mobilenet\.pth"):
        Trainer.build(settings.model_copy(update={"model": model}), 0)


def test_the_preset_sets_model_and_objective_together(repository):
    plan = Plan.load(repository / "plan" / "carla.yaml")
    changed = with_detector(plan, "ssdlite")
    assert changed.training.model.template == "models.ssdlite.SSDLite"
    assert changed.training.model.settings["classes"] == plan.training.model.settings["classes"]
    objective = changed.training.objective.build("objective")
    assert isinstance(objective, DetectorObjective)
    assert objective.min_size == 10
    assert objective.augmentation.colour == 0.1
    assert changed.run_name == "carla-ssdlite-der+fedagem-seed0"
    assert isinstance(with_detector(plan, "tinyyolo").training.objective.build("objective"), DetectionObjective)
    with pytest.raises(PlanError, match="is for plans with vehicles"):
        with_detector(Plan.load(repository / "plan" / "rotated_digits.yaml"), "ssdlite")
