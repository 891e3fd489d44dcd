"""The example frames of a run's page are frames that the run was scored on."""

import shutil

import numpy as np
import pytest
import torch

from fedagem.detection.detector_file import save_detector
from fedagem.detection.footage import NamedFrame
from fedagem.detection.judging import judge
from fedagem.detection.pictures import ALARM, HIT, MISSED, draw_judged
from fedagem.errors import DataError
from fedagem.reports.before_and_after import before_and_after
from models.detections import Detections
from models.tiny_yolo import TinyYolo
from tests.support.finished_runs import CONFIG, add_pictures, change_plan_of, make_driving_run, write_drive


@pytest.fixture
def run(tmp_path):
    """A run with its last model; its drives have 9 frames from number 100 and 14 from number 200."""
    write_drive(tmp_path / "drives" / "short", 100, 9)
    write_drive(tmp_path / "drives" / "long", 200, 14)
    run = make_driving_run(tmp_path / "run", "fedavg", 0.0)
    add_pictures(run, tmp_path / "drives")
    return run


def strips_of(run, **loader):
    change_plan_of(run, "data_loader", classes=["vehicle"], class_aliases={})
    paths = {"city": [str(run.parent / "drives")]}
    loader["evaluation"] = {"paths": paths, **loader.get("evaluation", {})}
    change_plan_of(run, "data_loader", **loader)
    return before_and_after([run])


def shown_frames(run, **loader):
    strips = strips_of(run, **loader)
    assert all(strip.moments == ["at the end"] for strip in strips)
    return [int(strip.title.rpartition(" ")[2]) for strip in strips]


def test_frames_that_were_learned_from_are_not_shown(run):
    drives = run.parent / "drives"
    legs = {name: [{"paths": [str(drives)]}] for name in ("vehicle_1", "vehicle_2")}
    holdout = {"block": 1, "every": 7}
    shown = shown_frames(run, snippets=legs, holdout=holdout, evaluation={"held_out_only": True})
    assert len(shown) == 2
    assert set(shown) < {206, 213, 106}, "every seventh of each drive, counted separately in each"


def test_without_a_holdout_any_frame_may_be_shown(run):
    assert len(shown_frames(run)) == 2


def test_frames_are_those_in_which_the_methods_differ_most(run, monkeypatch):
    """A stand-in for two detectors, one of which sees everything and the other nothing in one frame only."""
    other = make_driving_run(run.parent / "other", "der", 0.0)
    add_pictures(other, run.parent / "drives")
    for each in (run, other):
        change_plan_of(each, "data_loader", classes=["vehicle"], class_aliases={})
    save_detector(TinyYolo.of(CONFIG), run / "save" / "after_round_4.safetensors")
    save_detector(TinyYolo.of(CONFIG), other / "save" / "after_round_4.safetensors")
    calls = []

    def seen(model, objective, frames):
        [frame] = frames
        calls.append(frame.frame)
        blind = frame.frame == 207 and calls.count(207) == 4
        boxes = torch.zeros((0, 4)) if blind else torch.tensor([[20.0, 20.0, 60.0, 44.0]])
        count = len(boxes)
        return [Detections(torch.zeros(count).long(), boxes, torch.ones(count), torch.zeros(count).long())]

    monkeypatch.setattr("fedagem.reports.kept_models.detect_in_frames", seen)
    first, _ = before_and_after([run, other])
    assert first.title.endswith("frame 207")
    assert first.moments == ["after round 4", "at the end"]
    assert [label for label, _ in first.rows] == ["fedavg", "der + Fed-A-GEM"]
    assert len({address for _, addresses in first.rows for address in addresses}) == 2, "one picture is another"


def test_errors_have_their_own_colours():
    frame = NamedFrame(
        np.zeros((64, 96, 3), np.uint8),
        "f",
        np.array([[10, 10, 20, 20], [60, 10, 20, 20], [40, 50, 4, 4]], np.float32),
        np.zeros(3, np.int64),
    )
    found = Detections(
        torch.zeros(3).long(),
        torch.tensor([[10.0, 10.0, 30.0, 30.0], [10.0, 40.0, 30.0, 60.0], [60.0, 50.0, 63.0, 53.0]]),
        torch.tensor([0.9, 0.8, 0.7]),
        torch.zeros(3).long(),
    )
    judged = judge(frame, found, min_size=8)
    assert judged.hits.boxes.tolist() == [[10, 10, 30, 30]]
    assert judged.missed.boxes.tolist() == [[60, 10, 80, 30]], "the object of 4 pixels is not wanted"
    assert judged.alarms.boxes.tolist() == [[10, 40, 30, 60]], "nor is a detection that small punished"
    assert judged.errors == 2
    drawn = draw_judged(frame.image, judged, ["vehicle"])
    assert drawn.shape == (128, 192, 3)
    assert [tuple(drawn[y, x]) for y, x in ((20, 40), (20, 140), (80, 40))] == [HIT, MISSED, ALARM]


def test_drives_that_are_gone_are_missed_in_one_sentence(run):
    (run.parent / "drives" / "long" / "203.png").unlink()
    with pytest.raises(DataError, match=r"203\.png: the image is missing"):
        strips_of(run)
    shutil.rmtree(run.parent / "drives")
    with pytest.raises(DataError, match=r"the evaluation frames cannot be read: .*drives is not a directory"):
        strips_of(run)
