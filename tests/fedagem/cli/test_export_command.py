"""`fedagem export`: an ONNX file that ONNX Runtime runs, checked against the model, with a card beside it."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from carla_bridge.frames import Annotations, Box, Frame
from carla_bridge.snippets import SnippetSource, SnippetWriter
from fedagem.cli.main import main
from fedagem.detection.detector_file import load_detector, save_detector
from fedagem.detection.inference import detect_in_frames
from fedagem.detection.parity import Parity
from models.detections import Detections
from models.tiny_yolo import TinyYolo

pytest.importorskip("onnxscript", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
CLASSES = ("vehicle", "sign")


def run(*words):
    return CliRunner().invoke(main, ["export", *map(str, words)])


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    """Frames that must be scaled and letterboxed."""
    place = tmp_path_factory.mktemp("drive") / "city"
    random = np.random.default_rng(0)
    with SnippetWriter(place, CLASSES, vehicle="v", domain="city") as writer:
        for number in range(3):
            image = random.integers(0, 255, (75, 130, 3), dtype=np.uint8)
            writer.write(Frame(image, number, float(number), Annotations.of([Box(0, 20, 20, 40, 24)])))
    return place


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """It sees several objects of both classes in every frame, and where depends on the pixels."""
    torch.manual_seed(1)
    network = TinyYolo(classes=CLASSES, anchors=((0.5, 0.5), (2.0, 1.0)), input_size=(96, 64), width=0.05)
    with torch.no_grad():
        network.head.weight.mul_(40)
        assert network.head.bias is not None
        network.head.bias[4::7] = 1.0
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_detector(network.eval(), path)
    return path


@pytest.fixture(scope="module")
def exported(model, drive, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "detector.onnx"
    result = run("--model", model, "--out", out, "--snippets", drive)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_the_file_finds_what_the_model_finds(exported, model, drive):
    out, _ = exported
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    checkpoint = load_detector(model)
    seen = 0
    for frame in SnippetSource([drive]).frames():
        boxes, scores, labels = session.run(None, {"frame": frame.image})
        (wanted,) = detect_in_frames(checkpoint.model, checkpoint.objective(), [frame])
        assert labels.tolist() == wanted.labels.tolist()
        np.testing.assert_allclose(boxes, wanted.boxes.numpy(), atol=0.05)
        np.testing.assert_allclose(scores, wanted.scores.numpy(), atol=1e-4)
        seen += len(scores)
    assert seen > 10


def test_whoever_runs_the_file_may_choose_the_confidence(exported, drive):
    session = onnxruntime.InferenceSession(str(exported[0]), providers=["CPUExecutionProvider"])
    frame = next(SnippetSource([drive]).frames()).image
    _, usual, _ = session.run(None, {"frame": frame})
    _, few, _ = session.run(None, {"frame": frame, "confidence": np.array(0.6, dtype=np.float32)})
    assert 0.3 < usual.min() < 0.6
    assert few.tolist() == usual[usual > 0.6].tolist()


def test_the_card_says_what_was_measured(exported, model):
    out, printed = exported
    card, numbers = out.with_suffix(".md").read_text(), json.loads(out.with_suffix(".json").read_text())
    assert numbers["parity"]["frames"] == 3
    assert numbers["parity"]["box"] < 1
    assert numbers["parity"]["score"] < 1e-3
    assert numbers["scores"]["city"]["objects"] == 3
    assert numbers["scores"]["city"]["map_50"] == pytest.approx(numbers["scores_of_the_original"]["city"]["map_50"])
    assert numbers["latency_milliseconds"]["median"] > 0
    assert "0 vehicle, 1 sign." in card
    assert f"| model file | {model} |" in card
    assert f"| city | 3 | 3 | {numbers['scores']['city']['map_50']:.3f} (" in card
    assert "ms per frame (median)" in printed
    metadata = onnxruntime.InferenceSession(str(out)).get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == list(CLASSES)


def found(rows):
    """Detections of one frame from rows of left, score and label."""
    boxes = torch.tensor([[left, 0.0, left + 10.0, 10.0] for left, _, _ in rows]).reshape(-1, 4)
    scores, labels = torch.tensor([row[1] for row in rows]), torch.tensor([row[2] for row in rows], dtype=torch.long)
    return Detections(torch.zeros(len(rows)), boxes, scores, labels)


ONE = [(5.0, 0.8, 0), (30.0, 0.5, 1)]


@pytest.mark.parametrize(
    ("other", "holds"),
    [
        (ONE, True),
        (ONE[::-1], True),
        ([(5.9, 0.8, 0), (30.0, 0.5, 1)], True),
        ([(6.1, 0.8, 0), (30.0, 0.5, 1)], False),
        ([(5.0, 0.8005, 0), (30.0, 0.5, 1)], True),
        ([(5.0, 0.802, 0), (30.0, 0.5, 1)], False),
        ([(5.0, 0.8, 1), (30.0, 0.5, 1)], False),
        (ONE[:1], False),
        ([*ONE, (60.0, 0.4, 0)], False),
        ([*ONE, (60.0, 0.3005, 0)], True),
        ([*ONE, (60.0, 0.2, 0)], True),
        ([], False),
    ],
)
def test_parity_allows_a_pixel_and_a_thousandth_and_no_more(other, holds):
    parity = Parity(0.3)
    parity.add(found(ONE), found(other))
    assert parity.holds == holds


def test_a_file_that_differs_is_not_kept(exported, drive, tmp_path, monkeypatch):
    """An exporter that goes wrong: it writes the file of another model."""
    network = TinyYolo(classes=CLASSES, anchors=((0.5, 0.5), (2.0, 1.0)), input_size=(96, 64), width=0.05)
    save_detector(network, tmp_path / "other.safetensors")

    def wrong(model, objective, size, path, details):
        shutil.copy(exported[0], path)

    monkeypatch.setattr("fedagem.detection.onnx_file.write_onnx", wrong)
    result = run("--model", tmp_path / "other.safetensors", "--out", tmp_path / "d.onnx", "--snippets", drive)
    assert result.exit_code == 2
    assert "the exported model differs from" in " ".join(result.output.split())
    assert not list(tmp_path.glob("*d.onnx*"))


def test_mistakes_end_in_one_sentence(model, drive, tmp_path, monkeypatch):
    def refused(sentence, *words):
        result = run("--model", model, *words)
        assert result.exit_code == 2
        assert isinstance(result.exception, SystemExit)
        assert sentence in " ".join(result.output.split())

    refused("the file must end in .onnx", "--out", tmp_path / "d.bin", "--snippets", drive)
    refused("name some with --snippets", "--out", tmp_path / "d.onnx")
    refused("--alias is for drives that --snippets names", "--out", tmp_path / "d.onnx", "--alias", "a=vehicle")
    words = ("--out", tmp_path / "d.onnx", "--snippets", drive, "--frame-size", "64x64")
    refused("none of the 3 frames has the size (64, 64)", *words)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    refused("onnxruntime is missing: install it with `pip install 'fedagem[onnx]'`", *words)
    assert list(tmp_path.iterdir()) == []
