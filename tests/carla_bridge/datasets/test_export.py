"""Snippets as YOLO data sets: what was exported and is imported again has the same boxes and pictures."""

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carla_bridge.cli.main import main
from carla_bridge.frames import Annotations, Box, Frame
from carla_bridge.snippets import SnippetSource, SnippetWriter, find_snippets

CLASSES = ("vehicle", "bike", "pedestrian")


def record(place, drawn, domain="city", size=(33, 57)):
    with SnippetWriter(place, CLASSES, vehicle="vehicle_1", domain=domain) as writer:
        for number, boxes in enumerate(drawn):
            image = np.full((*size, 3), number, np.uint8)
            writer.write(Frame(image, number, float(number), Annotations.of(boxes)))


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output


def boxes_by_picture(place):
    source = SnippetSource(find_snippets(place), classes=CLASSES)
    return {
        (frame.domain, int(frame.image[0, 0, 0])): (frame.annotations.labels.tolist(), frame.annotations.boxes.tolist())
        for frame in source.frames()
    }


@st.composite
def boxes(draw):
    x, y = draw(st.integers(0, 56)), draw(st.integers(0, 32))
    return Box(draw(st.integers(0, 2)), x, y, draw(st.integers(1, 57 - x)), draw(st.integers(1, 33 - y)))


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(boxes(), max_size=4), min_size=1, max_size=4))
def test_a_round_trip_has_equal_boxes(tmp_path_factory, drawn):
    home = tmp_path_factory.mktemp("trip")
    record(home / "drive/000_city", drawn)
    record(home / "drive/001_highway", drawn, domain="highway")
    run("export", "--to", "yolo", home / "drive", "--out", home / "yolo", "--val", 0)
    run("import", "--from", "yolo", home / "yolo", "--split", "train", "--domain-by", "folder", "--out", home / "again")
    assert boxes_by_picture(home / "again") == boxes_by_picture(home / "drive")


def test_the_last_part_of_every_snippet_is_for_the_validation(tmp_path):
    record(tmp_path / "drive", [[Box(1, 1, 2, 3, 4)]] * 10)
    run("export", "--to", "yolo", tmp_path / "drive", "--out", tmp_path / "yolo", "--val", 0.3)
    data = yaml.safe_load((tmp_path / "yolo/data.yaml").read_text())
    assert data["names"] == dict(enumerate(CLASSES))
    train, val = (sorted((tmp_path / "yolo" / data[split]).rglob("*.png")) for split in ("train", "val"))
    assert [int(path.stem[-2:]) for path in val] == [7, 8, 9]
    assert len(train) == 7
    (line,) = (tmp_path / "yolo/labels/val/city" / f"{val[0].stem}.txt").read_text().splitlines()
    label, *shares = line.split()
    assert label == "1"
    assert [float(share) for share in shares] == pytest.approx([2.5 / 57, 4 / 33, 3 / 57, 4 / 33], abs=1e-9)


def test_an_export_does_not_touch_a_folder_in_use(tmp_path):
    record(tmp_path / "drive", [[]])
    words = ["export", "--to", "yolo", str(tmp_path / "drive"), "--out", str(tmp_path / "drive")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "exists and is not an empty folder" in result.output
