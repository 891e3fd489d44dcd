"""The commands as a user calls them, on drives, pictures and videos written here."""

import json

import cv2
import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from safetensors import safe_open

from fedagem.cli.main import main
from fedagem.detection.detector_file import save_detector
from fedagem.learning.model_file import ModelDescription, write_model
from fedagem.learning.trainer import Component
from models.tiny_yolo import TinyYolo
from models.yolo_decode import encode_boxes

CLASSES = ("vehicle", "sign")
ANCHORS = ((0.5, 0.5), (2.0, 1.0))


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(result, *words):
    """One clear sentence, a non-zero exit and no traceback."""
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    assert all(word in result.output for word in words), result.output
    return True


@pytest.fixture
def drive(tmp_path):
    """Four frames of 96x64; each shows a vehicle at the same place, the third also a sign, the last nothing."""
    folder = tmp_path / "drive"
    folder.mkdir()
    random = np.random.default_rng(0)
    boxes = [[[20, 20, 40, 24, 1]], [[20, 20, 40, 24, 1]], [[20, 20, 40, 24, 1], [70, 5, 9, 9, 2]], []]
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    for n, rows in enumerate(boxes):
        cv2.imwrite(str(folder / f"{n}.png"), random.integers(0, 255, (64, 96, 3), dtype=np.uint8))
        images.append({"id": n, "file_name": f"{n}.png", "width": 96, "height": 64, "frame": n, "timestamp": n})
        for x, y, w, h, category in rows:
            annotation = {"image_id": n, "category_id": category, "bbox": [x, y, w, h], "area": w * h, "iscrowd": 0}
            annotations.append({"id": len(annotations), **annotation})
    categories = [{"id": 1, "name": "vehicle"}, {"id": 2, "name": "tree"}]
    document = {"info": {}, "images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(document))
    return folder


@pytest.fixture
def model(tmp_path):
    """A detector that sees, whatever it is shown, a vehicle where the drive's are, and one like it in every cell."""
    network = TinyYolo(classes=CLASSES, anchors=ANCHORS, input_size=(96, 64), width=0.05)
    target = encode_boxes(torch.tensor([[[0, 40 / 96, 32 / 64, 40 / 96, 24 / 64]]]), torch.tensor(ANCHORS), (2, 3))
    (anchor,) = target.anchor.tolist()
    bias = network.head.bias
    assert bias is not None
    wanted = [*torch.logit(target.offset[0]).tolist(), *target.scale[0].tolist(), 6.0, 6.0, -6.0]
    with torch.no_grad():
        network.head.weight.zero_()
        bias.fill_(-9.0)
        bias[anchor * 7 : anchor * 7 + 7] = torch.tensor(wanted)
    path = tmp_path / "models" / "model.safetensors"
    save_detector(network, path)
    return path


def test_evaluate_prints_a_table_and_writes_scores_and_pictures(tmp_path, drive, model):
    result = run("evaluate", "--model", model, "--snippets", drive, "--pictures", 2, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "vehicle" in result.output
    assert "does not know tree" in " ".join(result.output.split())
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["frames"] == 4
    assert scores["objects"] == 3
    assert scores["per_class"]["sign"] == {"map_50": None, "map": None, "objects": 0, "averaged": False}
    assert 0 < scores["map_50"] <= 1
    assert scores["map_50"] == scores["per_class"]["vehicle"]["map_50"]
    assert scores["seconds"] > 0
    pictures = sorted((tmp_path / "out").glob("*.png"))
    assert len(pictures) == 2
    assert picture(pictures[0]).shape[1] == 2 * 96


def test_evaluate_takes_several_drives_and_scores_each(tmp_path, drive, model):
    other = tmp_path / "other"
    other.symlink_to(drive)
    result = run("evaluate", "--model", model, "--snippets", drive, other, "--json", tmp_path / "s.json")
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "s.json").read_text())
    assert scores["frames"] == 8
    assert set(scores["snippets"]) == {"drive", "other"}
    assert scores["snippets"]["drive"]["frames"] == 4


def test_evaluate_leaves_out_small_objects_on_request(tmp_path, drive, model):
    result = run("evaluate", "--model", model, "--snippets", drive, "--min-size", 30, "--json", tmp_path / "s.json")
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "s.json").read_text())
    assert scores["objects"] == 0
    assert scores["map_50"] is None
    assert scores["min_size"] == 30


def test_mistakes_end_in_one_sentence(tmp_path, drive, model):
    assert refused(run("evaluate", "--model", tmp_path / "no.pt", "--snippets", drive), "there is no model at")
    assert refused(run("evaluate", "--model", model, "--snippets", tmp_path / "nothing"), "nothing")
    assert refused(run("evaluate", "--model", model, "--snippets", drive, "--pictures", -1), "cannot be negative")
    (tmp_path / "last.pbuf").write_text("weights")
    openfl = run("evaluate", "--model", tmp_path / "last.pbuf", "--snippets", drive)
    assert refused(openfl, "is OpenFL's own model file: use", "last.safetensors")
    assert refused(run("evaluate", "--model", tmp_path / "last.pbuf"), "is OpenFL's own model file")
    assert refused(run("evaluate", "--model", model, "--plan", "p.yaml", "--snippets", drive), "give one of them")
    (tmp_path / "junk.pt").write_text("junk")
    assert refused(run("evaluate", "--model", tmp_path / "junk.pt", "--snippets", drive), "is not a model file")
    assert refused(run("detect", tmp_path / "gone", "--model", model, "--out", tmp_path), "there is nothing at")
    (tmp_path / "film.mp4").write_text("no film")
    assert refused(run("detect", tmp_path / "film.mp4", "--model", model, "--out", tmp_path / "o"), "film.mp4")
    (tmp_path / "picture.png").write_text("no picture")
    assert refused(run("detect", tmp_path / "picture.png", "--model", model, "--out", tmp_path / "o"), "picture.png")
    (tmp_path / "empty").mkdir()
    assert refused(run("detect", tmp_path / "empty", "--model", model, "--out", tmp_path / "o"), "neither pictures")
    assert refused(run("detect", drive, "--model", model, "--out", tmp_path / "o", "--overlap", 2), "between 0 and 1")


def test_a_drive_without_a_class_of_the_model_is_refused(tmp_path, drive):
    network = TinyYolo(classes=("zebra",), anchors=ANCHORS, input_size=(96, 64), width=0.05)
    save_detector(network, tmp_path / "zebra.safetensors")
    result = run("evaluate", "--model", tmp_path / "zebra.safetensors", "--snippets", drive)
    assert refused(result, "zebra", "no class in common")


@pytest.mark.parametrize("command", ["evaluate", "detect"])
def test_a_model_file_cannot_name_just_any_class(tmp_path, drive, model, command):
    with safe_open(model, "np") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    settings = {"command": f"touch {tmp_path / 'harm'}"}
    write_model(model, weights, ModelDescription(network=Component(template="os.system", settings=settings)))
    arguments = [drive, "--out", tmp_path / "o"] if command == "detect" else ["--snippets", drive]
    assert refused(run(command, *arguments, "--model", model), "'os.system', which is not part of this project")
    allowed = run(command, *arguments, "--model", model, "--allow", "os")
    assert refused(allowed, "'os.system', which does not make a Module")
    assert not (tmp_path / "harm").exists()


def picture(path):
    image = cv2.imread(str(path))
    assert image is not None
    return image


def lines_of(folder):
    return [json.loads(line) for line in (folder / "detections.jsonl").read_text().splitlines()]


def test_detect_on_a_drive_lists_and_draws_every_frame(tmp_path, drive, model):
    result = run("detect", drive, "--model", model, "--out", tmp_path / "out", "--confidence", 0.5)
    assert result.exit_code == 0, result.output
    lines = lines_of(tmp_path / "out")
    assert [line["frame"] for line in lines] == ["000000", "000001", "000002", "000003"]
    boxes = [found["box"] for found in lines[0]["objects"]]
    assert any(np.allclose(box, [20, 20, 40, 24], atol=0.2) for box in boxes)
    assert {found["class"] for found in lines[0]["objects"]} == {"vehicle"}
    assert not np.array_equal(picture(tmp_path / "out" / "000000.png"), picture(drive / "0.png"))


def test_detect_on_pictures_and_on_a_video(tmp_path, drive, model):
    result = run("detect", drive / "1.png", "--model", model, "--out", tmp_path / "one")
    assert result.exit_code == 0, result.output
    assert [line["frame"] for line in lines_of(tmp_path / "one")] == ["1"]

    film = tmp_path / "film.avi"
    writer = cv2.VideoWriter(str(film), cv2.VideoWriter.fourcc(*"MJPG"), 10, (96, 64))
    for n in range(20):
        writer.write(np.full((64, 96, 3), 12 * n, dtype=np.uint8))
    writer.release()
    result = run("detect", film, "--model", model, "--out", tmp_path / "film", "--confidence", 0.99)
    assert result.exit_code == 0, result.output
    assert len(lines_of(tmp_path / "film")) == 20
    capture = cv2.VideoCapture(str(tmp_path / "film" / "film.mp4"))
    frames = 0
    while capture.read()[0]:
        frames += 1
    assert frames == 20
    assert capture.get(cv2.CAP_PROP_FPS) == pytest.approx(10)


def test_anchors_are_printed_and_written_as_yaml(tmp_path, drive):
    result = run("anchors", drive, "--count", 2, "--size", "96x64", "--out", tmp_path / "anchors.yaml")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "anchors.yaml").read_text() == result.output
    anchors = yaml.safe_load(result.output)["anchors"]
    assert np.allclose(anchors, [[9 / 32, 9 / 32], [40 / 32, 24 / 32]], atol=1e-3)
    assert refused(run("anchors", drive, "--count", 3, "--size", "96x64"), "3 anchors need at least 3 boxes")
    assert refused(run("anchors", drive, "--size", "90x64"), "multiples of 32")
    assert refused(run("anchors", drive, "--size", "large"), "not a size like 416x256")
