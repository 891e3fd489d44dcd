"""The example frames of a run's page are frames that the run was scored on."""

import shutil

import pytest

from fedagem.errors import DataError
from fedagem.reports.before_and_after import before_and_after
from tests.support.finished_runs import add_pictures, change_plan_of, make_driving_run, write_drive


@pytest.fixture
def run(tmp_path):
    """A run with its last model; its drives have 9 frames from number 100 and 14 from number 200."""
    write_drive(tmp_path / "drives" / "short", 100, 9)
    write_drive(tmp_path / "drives" / "long", 200, 14)
    run = make_driving_run(tmp_path / "run", "fedavg", 0.0)
    add_pictures(run, tmp_path / "drives")
    return run


def shown_frames(run, **loader):
    loader["evaluation"]["paths"] = {"city": [str(run.parent / "drives")]}
    change_plan_of(run, "data_loader", **loader)
    rows = before_and_after(run)
    assert all([caption for caption, _ in pictures] == ["ground truth", "at the end"] for _, pictures in rows)
    return [int(title.rpartition(" ")[2]) for title, _ in rows]


def test_frames_that_were_learned_from_are_not_shown(run):
    holdout = {"block": 1, "every": 7}
    shown = shown_frames(run, holdout=holdout, evaluation={"held_out_only": True})
    assert len(shown) == 2
    assert set(shown) < {206, 213, 106}, "every seventh of each drive, counted separately in each"


def test_without_a_holdout_any_frame_may_be_shown(run):
    assert len(set(shown_frames(run, evaluation={})) - {206, 213, 106}) == 2


def test_drives_that_are_gone_are_missed_in_one_sentence(run):
    (run.parent / "drives" / "long" / "203.png").unlink()
    with pytest.raises(DataError, match=r"203\.png: the image is missing"):
        shown_frames(run, evaluation={})
    shutil.rmtree(run.parent / "drives")
    with pytest.raises(DataError, match=r"drives is not a directory: name a folder with frames"):
        shown_frames(run, evaluation={})
