"""`fedagem film` on real detectors whose head is set by hand: one sees nothing, one a wide box in every cell."""

import json

import cv2
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.detection.detector_file import save_detector
from fedagem.detection.footage import Pictures, Video
from fedagem.detection.pictures import ALARM, CAPTION_HEIGHT, HIT, MISSED
from models.tiny_yolo import TinyYolo
from tests.support.finished_runs import CONFIG, add_pictures, change_plan_of, make_driving_run, make_task_run

SCALE = 5
"""Frames 96 pixels wide become 480."""
HALF = (96 * SCALE, 64 * SCALE)
BARS = 2 * CAPTION_HEIGHT


def detector(sees: bool) -> TinyYolo:
    """Boxes of 64 x 32 pixels around the centre of each cell of 32 pixels, or none at all."""
    network = TinyYolo.of(CONFIG)
    with torch.no_grad():
        network.head.weight.zero_()
        bias = torch.zeros(len(CONFIG.anchors), 5 + len(CONFIG.classes))
        bias[:, 4] = -20
        bias[1, 4] = 20 if sees else -20
        network.head.bias = torch.nn.Parameter(bias.flatten())
    return network.eval()


@pytest.fixture
def drive(tmp_path):
    """Two grey frames with an object each, in the first where the seeing detector has a box and in the second not."""
    folder = tmp_path / "drives" / "one"
    folder.mkdir(parents=True)
    boxes = {7: [16, 0, 64, 32], 8: [40, 28, 10, 10]}
    for number in boxes:
        cv2.imwrite(str(folder / f"{number}.png"), np.full((64, 96, 3), 128, dtype=np.uint8))
    images = [{"id": n, "file_name": f"{n}.png", "width": 96, "height": 64, "frame": n} for n in boxes]
    objects = [{"id": n, "image_id": n, "category_id": 1, "bbox": box} for n, box in boxes.items()]
    document = {"images": images, "annotations": objects, "categories": [{"id": 1, "name": "vehicle"}]}
    (folder / "annotations.json").write_text(json.dumps(document))
    return tmp_path / "drives"


def make_run(folder, method, drive, sees_at_the_end, snapshot=4):
    """A run of six rounds with a shift at round 4; its model of before the shift sees nothing."""
    run = make_driving_run(folder, method, 0.0)
    add_pictures(run, drive)
    change_plan_of(run, "data_loader", classes=["vehicle"], class_aliases={})
    save_detector(detector(False), run / "save" / f"after_round_{snapshot}.safetensors")
    save_detector(detector(sees_at_the_end), run / "save" / "last.safetensors")
    return run


@pytest.fixture
def comparison(tmp_path, drive):
    for method, sees in (("fedavg", False), ("der", True)):
        make_run(tmp_path / "runs" / f"{method}-seed0", method, drive, sees)
    return tmp_path / "runs"


def film(*words):
    return CliRunner().invoke(main, ["film", *(str(word) for word in words)])


def halves(picture):
    return picture[BARS:, : HALF[0]].astype(int), picture[BARS:, HALF[0] :].astype(int)


def near(pixel, colour):
    """Films are compressed."""
    return np.abs(pixel - np.array(colour)).max() < 60


def test_a_film_shows_every_frame_at_every_moment_and_the_difference(comparison, tmp_path):
    result = film(comparison, "--out", tmp_path / "films" / "demo.mp4")
    assert result.exit_code == 0, result.output
    assert "4 frames of" in result.output
    pictures = [frame.image for frame in Video(tmp_path / "films" / "demo.mp4")]
    assert len(pictures) == 4, "two frames before the shift and the same at the end"
    assert {picture.shape for picture in pictures} == {(HALF[1] + BARS, 2 * HALF[0], 3)}
    for picture in pictures[:2]:
        left, right = halves(picture)
        assert np.abs(left - right).max() < 30, "both see nothing before the shift"
    for picture in pictures[2:]:
        left, right = halves(picture)
        assert np.abs(left - right).max() > 100
    left, right = halves(pictures[2])
    top = 16 * SCALE
    assert near(left[top, 16 * SCALE], MISSED), "the left edge of the object"
    assert near(right[top, 16 * SCALE], HIT)
    assert not near(left[48 * SCALE, 16 * SCALE], ALARM)
    assert near(right[40 * SCALE, 16 * SCALE], ALARM), "the box of the cell below, where nothing is"
    assert [path.name for path in (tmp_path / "films").iterdir()] == ["demo.mp4"]


def test_the_still_is_the_picture_in_which_the_two_differ_most(comparison, tmp_path):
    result = film(comparison, "--out", tmp_path / "demo.mp4", "--still", tmp_path / "demo.png")
    assert result.exit_code == 0, result.output
    [still] = [frame.image.astype(int) for frame in Pictures([tmp_path / "demo.png"])]
    apart = [np.abs(still - frame.image).mean() for frame in Video(tmp_path / "demo.mp4")]
    assert np.argmin(apart) == 3, "at the end, and not the frame in which one of the boxes is right"
    assert apart[3] < 0.8 * min(apart[:3]), apart


def refused(*words):
    result = film(*words)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit), result.exception
    said = " ".join(result.output.split())
    assert "Error: " in said
    return said


def test_runs_that_cannot_be_filmed_are_refused_in_one_sentence(comparison, drive, tmp_path):
    out = tmp_path / "demo.mp4"
    task = make_task_run(tmp_path / "task", "fedavg", 0.5)
    assert "task trained no detector: a film shows the runs of a driving plan" in refused(task, "--out", out)
    fedavg = comparison / "fedavg-seed0"
    assert "have kept models of fedavg, and a film shows two methods" in refused(fedavg, "--out", out)
    other = make_run(tmp_path / "other", "der", drive, True, snapshot=3)
    assert "kept their models after different rounds" in refused(fedavg, other, "--out", out)
    change_plan_of(other, "data_loader", seed=5)
    assert "no run of fedavg among these has the seed" in refused(fedavg, other, "--out", out)
    assert "--out is demo.gif: a film is an .mp4 file" in refused(comparison, "--out", "demo.gif")
    assert "--still is demo.txt" in refused(comparison, "--out", out, "--still", "demo.txt")
    (drive / "one" / "8.png").unlink()
    assert "8.png: the image is missing" in refused(comparison, "--out", out)
    for run in comparison.iterdir():
        change_plan_of(run, "data_loader", evaluation={"paths": {}})
    assert "has no evaluation frames: its data_loader.settings.evaluation.paths are empty" in refused(
        comparison, "--out", out
    )
    for run in comparison.iterdir():
        (run / "save" / "after_round_4.safetensors").unlink()
    assert "kept no model before the end: name rounds in aggregator.settings.snapshots" in refused(
        comparison, "--out", out
    )
    assert not list(tmp_path.glob("*.mp4"))


def test_a_picture_that_is_found_damaged_late_leaves_no_film(comparison, drive, tmp_path):
    (drive / "one" / "8.png").write_bytes(b"no picture")
    assert "8.png: the image is truncated" in refused(comparison, "--out", tmp_path / "demo.mp4")
    assert not [path for path in tmp_path.iterdir() if "mp4" in path.name]
