"""A plan that would be scored on frames that it trains on is refused."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.driving import Holdout
from fedagem.plans.plan import Plan

SNIPPETS = "data_loader.settings.snippets"
HOLDOUT = "data_loader.settings.holdout"
HELD_OUT_ONLY = "data_loader.settings.evaluation.held_out_only"
PATHS = "data_loader.settings.evaluation.paths"
SECONDS = "data_loader.settings.evaluation.seconds"


@pytest.fixture
def plan(repository):
    return Plan.load(repository / "plan" / "carla_snippets.yaml")


def refusal(plan):
    with pytest.raises(PlanError) as refused:
        check_plan(plan)
    assert "\n" not in refused.value.message
    return refused.value.message


def scored_on(plan, *paths):
    return plan.changed({PATHS: {"highway": list(paths)}, SECONDS: {}})


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
@pytest.mark.parametrize("path", ["carla_drives/highway_hills", "carla_drives", "carla_drives/highway_hills/1"])
def test_frames_to_train_on_are_not_scored(plan, path, holdout):
    changed = scored_on(plan, path).changed({HOLDOUT: holdout, HELD_OUT_ONLY: False})
    trained = "city_day" if path == "carla_drives" else "highway_hills"
    vehicle = "vehicle_1" if path == "carla_drives" else "vehicle_2"
    assert refusal(changed) == (
        f"data_loader.settings.evaluation.paths.highway has {path}, which shares frames with "
        f"carla_drives/{trained} in data_loader.settings.snippets.{vehicle}: score other frames, or set "
        "data_loader.settings.holdout and evaluation.held_out_only."
    )


def test_the_same_folder_by_another_path_is_found(plan, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / "carla_drives")
    for path in (f"{tmp_path}/carla_drives/city_day", "carla_drives/rural/../city_day", "link/city_day"):
        assert "shares frames with" in refusal(scored_on(plan, path).changed({HELD_OUT_ONLY: False}))


@pytest.mark.parametrize("path", ["carla_snippets/Town05", "carla_drives/city_da", "other/city_day"])
def test_other_frames_may_be_scored_whole(plan, path):
    check_plan(scored_on(plan, path).changed({HOLDOUT: None, HELD_OUT_ONLY: False}))


def test_whoever_drives_live_may_be_scored_on_any_recording(repository):
    check_plan(scored_on(Plan.load(repository / "plan" / "carla_demo.yaml"), "carla_snippets/Town04"))


def test_seconds_are_those_of_folders_that_are_scored(plan):
    with pytest.raises(PlanError, match=r"evaluation\.seconds has 'carla_drives/city_dai'; did you mean"):
        plan.changed({SECONDS: {"carla_drives/city_dai": [[0, 10]]}})


def test_a_gap_leaves_frames_to_train_on(plan):
    holdout = Holdout(block=3, every=3, gap=2)
    assert [n for n in range(9) if holdout.keeps_out(n)] == [6, 7, 8]
    assert [n for n in range(18) if holdout.trains_on(n)] == [0, 1, 2, 3, 11, 12]
    with pytest.raises(PlanError, match=r"holdout\.gap 3 leaves no frame to train on: .* are 6 frames"):
        plan.changed({HOLDOUT: {"block": 3, "every": 3, "gap": 3}})


def test_aliases_are_classes_of_the_plan(plan):
    with pytest.raises(PlanError, match=r"class_aliases\.car is 'vehicles'; did you mean vehicle\?"):
        plan.changed({"data_loader.settings.class_aliases.car": "vehicles"})
