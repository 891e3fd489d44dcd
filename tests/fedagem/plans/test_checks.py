"""A plan whose sections are at odds is refused before anybody drives and before there is a folder."""

from typing import Any

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.cli.options import RunRequest
from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan, plan_names


def refusal(plan, *assignments):
    """The sentence in which the plan is refused, when it is changed or when it is checked."""
    with pytest.raises(PlanError) as refused:
        check_plan(plan.changed(assignments=assignments))
    assert "\n" not in refused.value.message
    return refused.value.message


def test_every_plan_of_the_repository_is_good():
    assert len(plan_names()) >= 9
    for name in plan_names():
        check_plan(Plan.load(find_plan(name)))


# Rounds, stages and tasks


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (
            ["aggregator.settings.rounds_to_train=21"],
            "aggregator.settings.rounds_to_train is 21, but 5 tasks of 4 rounds",
        ),
        (
            ["aggregator.settings.rounds_to_train=20", "data_loader.settings.rounds_per_task=3"],
            "aggregator.settings.rounds_to_train is 20, but 5 tasks of 3 rounds",
        ),
        (
            ["assigner.settings.stages=[{name: train, tasks: [trian]}]"],
            "assigner.settings.stages (train) names the task 'trian'; did you mean train?",
        ),
        (
            ["assigner.settings.stages=[{name: evaluate, tasks: [evaluate], every: 3}]"],
            "assigner.settings.stages (evaluate) runs every 3 rounds, which misses ends of tasks of 4 rounds",
        ),
        (
            ["warm_up={seconds: 5, rounds: 1}"],
            "warm_up is for driving plans: a benchmark's plan may name its task_runner.settings.initial_model.",
        ),
        (
            ["assigner.settings.participation={arrivals: {first: 1, then: 1}, rounds_per_task: 4}"],
            "assigner.settings.participation.arrivals is first=1 then=1, but data_loader.settings.arrivals is None: "
            "set the one of the data loader only.",
        ),
    ],
)
def test_sections_at_odds_are_refused(digits, assignments, sentence):
    assert refusal(digits, *assignments).startswith(sentence)


def test_an_evaluation_may_divide_a_task(digits):
    stages = "assigner.settings.stages=[{name: evaluate, tasks: [evaluate], every: 2}]"
    check_plan(digits.changed(assignments=[stages]))


def test_a_task_that_a_stage_names_must_be_there(digits):
    assert refusal(digits, "tasks={trian: {function: train}}").startswith("assigner.settings.stages (baseline) names")


def request(path, out, **changes: Any):
    options = {"rounds": None, "seed": None, "assignments": (), "out": out, "resume": False}
    return RunRequest(plan_path=path, **{**options, **changes})


def test_rounds_settle_what_set_has_unsettled(digits_path, tmp_path):
    """Fewer tasks make another number of rounds; a plan that counts them itself needs --rounds."""
    tasks = ("aggregator.settings.rounds_to_train=20", "data_loader.settings.tasks.count=2")
    with pytest.raises(PlanError, match="make them agree, or use --rounds"):
        request(digits_path, tmp_path / "a", assignments=tasks).open_run()
    _, plan = request(digits_path, tmp_path / "b", assignments=tasks, rounds=4).open_run()
    assert plan.data.rounds_per_task == 2
    assert plan.aggregator.rounds_to_train == 4
    _, plan = request(digits_path, tmp_path / "c", assignments=tasks[1:]).open_run()
    assert plan.aggregator.rounds_to_train == 8


def test_a_refused_plan_leaves_no_folder(digits_path, tmp_path):
    with pytest.raises(PlanError):
        request(digits_path, tmp_path / "a", assignments=("task_runner.settings.method=derr",)).open_run()
    assert not (tmp_path / "a").exists()


# Drives


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
    (["carla.ignore_light=5"], "the plan has no 'carla.ignore_light'; did you mean carla.ignore_lights"),
    (["carla={ignore_light: 5}"], "carla has no setting 'ignore_light'; did you mean ignore_lights"),
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
    (["driving.evaluation_seconds=0"], "driving.evaluation_seconds must be positive, not 0."),
    (
        ["warm_up.lr=0.001"],
        "warm_up.lr is 0.001, but it falls to task_runner.settings.optimizer.lr, 0.005: give it at least that.",
    ),
    (
        ["data_loader.settings.seconds_per_round=61"],
        "data_loader.settings.seconds_per_round is 61, but the longest window that may be asked for is 60 s",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES)
def test_a_drive_that_cannot_work_is_refused(demo, changes, sentence):
    assert refusal(demo, *changes).startswith(sentence)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_refused_drive_leaves_nothing_behind(command, repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan_path = str(repository / "plan" / "carla_demo.yaml")
    result = CliRunner().invoke(main, [command, plan_path, "--set", "carla.classes={car: [14]}"])
    assert result.exit_code == 2
    assert "carla.classes are car" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_names_evaluation_frames_and_has_no_warm_up_records_nothing(demo):
    paths = "data_loader.settings.evaluation.paths={city: [drives/city]}"
    check_plan(demo.changed(assignments=["driving=null", "warm_up=null", paths]))


def test_a_benchmark_has_no_drive(digits):
    plan = digits.changed({"carla": {"simulator": "embedded"}})
    with pytest.raises(PlanError, match="carla is for driving plans"):
        check_plan(plan)
