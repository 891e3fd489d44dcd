"""What a driving plan learns before its federation begins."""

import copy

import pytest

from fedagem.cli.compare import _variant, method_assignments
from fedagem.errors import FedAGemError, PlanError
from fedagem.plans.driving import WarmUp
from fedagem.plans.plan import check_plan, load_plan, set_seed
from fedagem.runs.preparation import _training_plan, warm_up


@pytest.fixture
def plan(repository):
    return load_plan(repository / "plan" / "carla_snippets.yaml")


def training_plan(plan):
    return _training_plan(plan, "towns", WarmUp(**plan["warm_up"]))


def test_the_vehicles_stay_where_they_begin(plan):
    training = training_plan(plan)
    check_plan(training)
    legs = training["data_loader"]["settings"]["snippets"]
    assert {name: [leg["domain"] for leg in own] for name, own in legs.items()} == {
        "vehicle_1": ["city"],
        "vehicle_2": ["city"],
    }
    assert len(plan["data_loader"]["settings"]["snippets"]["vehicle_2"]) == 2, "the plan itself keeps its shift"


def test_a_round_is_one_pass_and_only_the_last_is_scored(plan):
    training = training_plan(plan)
    loader = training["data_loader"]["settings"]
    assert (loader["seconds_per_round"], loader["epochs"]) == (plan["warm_up"]["seconds"], 1)
    scored = [stage["every"] for stage in training["assigner"]["settings"]["stages"] if stage["name"] == "evaluate"]
    assert scored == [training["aggregator"]["settings"]["rounds_to_train"]] == [plan["warm_up"]["rounds"]]


def test_its_learning_rate_falls_to_the_plans_own(plan):
    plan["warm_up"] |= {"rounds": 5, "lr": 0.16}
    plan["task_runner"]["settings"]["optimizer"]["lr"] = 0.01
    check_plan(plan)
    optimizer = training_plan(plan)["task_runner"]["settings"]["optimizer"]
    rates = [optimizer["lr"] * optimizer["decay"] ** number for number in range(5)]
    assert rates == pytest.approx([0.16, 0.08, 0.04, 0.02, 0.01])
    assert "decay" not in plan["task_runner"]["settings"]["optimizer"], "the federation itself does not slow down"


@pytest.mark.parametrize("rate", [0.001, float("nan")])
def test_its_learning_rate_does_not_rise(plan, rate):
    plan["warm_up"]["lr"] = rate
    with pytest.raises(PlanError, match=rf"warm_up\.lr is {rate}, but it falls to .*optimizer\.lr"):
        check_plan(plan)


def test_methods_share_it_and_seeds_do_not(plan):
    methods = [_variant(plan, method_assignments(name)) for name in ("ideal", "fedavg", "der", "der+fedagem")]
    first, *others = [training_plan(variant) for variant in methods]
    assert all(other == first for other in others)
    set_seed(plan, 5)
    assert training_plan(plan) != first


@pytest.mark.parametrize("chosen", [{"seconds": 0, "rounds": 3}, {"seconds": 60, "rounds": 0}])
def test_it_needs_time_and_rounds(plan, chosen):
    plan["warm_up"] = chosen
    with pytest.raises(PlanError, match=r"warm_up needs positive seconds and rounds"):
        check_plan(plan)


def test_it_is_a_drive(repository):
    plan = load_plan(repository / "plan" / "rotated_digits.yaml")
    plan["warm_up"] = {"seconds": 60, "rounds": 3}
    with pytest.raises(PlanError, match="warm_up is for driving plans"):
        check_plan(plan)


def test_a_plan_that_names_its_initial_model_has_none(plan):
    plan["task_runner"]["settings"]["initial_model"] = "mine.safetensors"
    before = copy.deepcopy(plan)
    warm_up(plan, "towns")
    assert plan == before


def test_a_model_of_an_earlier_version_is_trained_again_on_request(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedagem.runs.preparation.run_jobs", lambda jobs, parallel: None)
    with pytest.raises(FedAGemError, match=r"was trained by an earlier version, without last\.safetensors: remove it"):
        warm_up(plan, "towns")
