"""A plan that would be scored on frames that it trains on is refused."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan

SNIPPETS = "data_loader.settings.snippets"
HOLDOUT = "data_loader.settings.holdout"
HELD_OUT_ONLY = "data_loader.settings.evaluation.held_out_only"
PATHS = "data_loader.settings.evaluation.paths"


@pytest.fixture
def plan(repository):
    return Plan.load(repository / "plan" / "carla_snippets.yaml")


def refusal(plan):
    with pytest.raises(PlanError) as refused:
        check_plan(plan)
    assert "\n" not in refused.value.message
    return refused.value.message


def scored_on(plan, *paths):
    return plan.changed({PATHS: {"highway": list(paths)}})


def test_the_plan_keeps_frames_out_of_training(plan):
    check_plan(plan)


def test_held_out_frames_need_a_holdout(plan):
    assert refusal(plan.changed({HOLDOUT: None})) == (
        "data_loader.settings.evaluation.held_out_only is true, but no frames are kept out of training: set "
        "data_loader.settings.holdout, or held_out_only to false."
    )


def test_a_live_drive_has_to_say_it_right_too(repository):
    live = Plan.load(repository / "plan" / "carla_demo.yaml")
    assert "no frames are kept out of training" in refusal(live.changed({HELD_OUT_ONLY: True}))


@pytest.mark.parametrize("holdout", [None, {"block": 10, "every": 5}])
@pytest.mark.parametrize("path", ["carla_snippets/Town04", "carla_snippets", "carla_snippets/Town04/001_highway"])
def test_frames_to_train_on_are_not_scored(plan, path, holdout):
    changed = scored_on(plan, path).changed({HOLDOUT: holdout, HELD_OUT_ONLY: False})
    trained = "Town01" if path == "carla_snippets" else "Town04"
    vehicle = "vehicle_1" if path == "carla_snippets" else "vehicle_2"
    assert refusal(changed) == (
        f"data_loader.settings.evaluation.paths.highway has {path}, which shares frames with "
        f"carla_snippets/{trained} in data_loader.settings.snippets.{vehicle}: score other frames, or set "
        "data_loader.settings.holdout and evaluation.held_out_only."
    )


def test_the_same_folder_by_another_path_is_found(plan, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / "carla_snippets")
    for path in (f"{tmp_path}/carla_snippets/Town04", "carla_snippets/Town01/../Town04", "link/Town04"):
        assert "shares frames with" in refusal(scored_on(plan, path).changed({HELD_OUT_ONLY: False}))


@pytest.mark.parametrize("path", ["carla_snippets/Town05", "carla_snippets/Town0", "other/Town04"])
def test_other_frames_may_be_scored_whole(plan, path):
    check_plan(scored_on(plan, path).changed({HOLDOUT: None, HELD_OUT_ONLY: False}))


def test_whoever_drives_live_may_be_scored_on_any_recording(repository):
    check_plan(scored_on(Plan.load(repository / "plan" / "carla_demo.yaml"), "carla_snippets/Town04"))
