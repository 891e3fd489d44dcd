"""A drive that cannot work is refused before anybody drives and before there is a folder."""

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.errors import PlanError
from fedagem.plans.plan import change_plan, check_plan, load_plan


@pytest.fixture
def plan(repository):
    return load_plan(repository / "plan" / "carla_demo.yaml")


MISTAKES = [
    (
        ["carla.schedule=[{at: 240, vehicle: vehicle_9, region: highway}]"],
        "carla.schedule[0] moves the vehicle 'vehicle_9'; did you mean vehicle_2 or vehicle_1?",
    ),
    (
        ["carla.schedule=[{at: 240, vehicle: vehicle_2, region: moon}]"],
        "carla.schedule[0] uses the region 'moon'; valid values: city, everywhere, highway.",
    ),
    (["carla.schedule=5"], "carla.schedule must be a list, not 5."),
    (
        ["carla.classes={car: [14]}"],
        "carla.classes are car, but data_loader.settings.classes are vehicle: give both the same, in the same order.",
    ),
    (
        ["data_loader.settings.vehicles=[vehicle_1, vehicle_3]"],
        "data_loader.settings.vehicles has 'vehicle_3', carla.vehicles not; did you mean vehicle_2 or vehicle_1?",
    ),
    (["carla.vehicles=[]"], "carla.vehicles names no vehicle; leave it out for two vehicles."),
    (["carla.regions=5"], "carla.regions must be a mapping, not 5."),
    (["carla.ignore_light=5"], "carla has no setting 'ignore_light'; did you mean ignore_lights"),
    (["carla=null"], "data_loader.settings.stream needs a carla section"),
    (
        [
            "carla=null",
            "data_loader.settings.stream=null",
            "data_loader.settings.snippets={vehicle_1: [{paths: [a]}], vehicle_2: [{paths: [a]}]}",
        ],
        "driving needs a carla section",
    ),
    (["driving=null"], "a plan with a carla section needs a driving section"),
    (
        ["driving.evaluation_regions=[city, moon]"],
        "driving.evaluation_regions has 'moon'; valid values: city, high",
    ),
    (["driving.evaluation_seconds=0"], "driving.evaluation_seconds must be positive"),
    (
        ["data_loader.settings.seconds_per_round=61"],
        "data_loader.settings.seconds_per_round is 61, but the longest window that may be asked for is 60 s",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES)
def test_a_drive_that_cannot_work_is_refused(plan, changes, sentence):
    change_plan(plan, changes)
    with pytest.raises(PlanError) as refused:
        check_plan(plan)
    assert refused.value.message.startswith(sentence)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_refused_drive_leaves_nothing_behind(command, repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan_path = str(repository / "plan" / "carla_demo.yaml")
    result = CliRunner().invoke(main, [command, plan_path, "--set", "carla.classes={car: [14]}"])
    assert result.exit_code == 2
    assert "carla.classes are car" in result.output
    assert list(tmp_path.iterdir()) == []


def test_who_names_evaluation_frames_and_has_no_warm_up_records_nothing(plan):
    change_plan(plan, ["driving=null", "warm_up=null", "data_loader.settings.evaluation.paths={city: [drives/city]}"])
    check_plan(plan)


def test_a_benchmark_has_no_drive(repository, plan):
    benchmark = load_plan(repository / "plan" / "rotated_digits.yaml")
    benchmark["carla"] = plan["carla"]
    with pytest.raises(PlanError, match="carla is for driving plans"):
        check_plan(benchmark)
