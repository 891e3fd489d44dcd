"""What a driving plan learns before its federation begins."""

from pathlib import Path

import pytest

from fedagem.cli.compare import _variant, method_changes
from fedagem.errors import FedAGemError, PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from fedagem.runs.preparation import _training_plan, warm_up


@pytest.fixture(scope="module")
def plan(repository: Path) -> Plan:
    return Plan.load(repository / "plan" / "carla_snippets.yaml")


def training_plan(plan: Plan) -> Plan:
    assert plan.warm_up is not None
    return _training_plan(plan, plan.warm_up)


def driving(plan: Plan) -> DrivingSettings:
    assert isinstance(plan.data, DrivingSettings)
    return plan.data


def test_the_vehicles_stay_where_they_begin(plan: Plan) -> None:
    training = training_plan(plan)
    check_plan(training)
    legs = driving(training).snippets
    assert {name: [leg.domain for leg in own] for name, own in legs.items()} == {
        "vehicle_1": ["city"],
        "vehicle_2": ["city"],
    }
    assert len(driving(plan).snippets["vehicle_2"]) == 2, "the plan itself keeps its shift"


def test_a_rule_of_a_later_domain_stays_behind(plan: Plan) -> None:
    rules = {"city": "brightness>=40", "highway": "brightness<40"}
    scored = {"city": ["carla_drives/city_day_b"]}
    both = plan.changed({"data_loader.settings.domain_rules": rules, "data_loader.settings.evaluation.paths": scored})
    assert driving(training_plan(both)).domain_rules == {"city": "brightness>=40"}
    assert training_plan(plan) == training_plan(plan.changed({"data_loader.settings.domain_rules": {}}))


def test_a_round_is_one_pass_and_only_the_last_is_scored(plan: Plan) -> None:
    training, chosen = training_plan(plan), plan.warm_up
    assert chosen is not None
    assert (driving(training).seconds_per_round, driving(training).epochs) == (chosen.seconds, 1)
    scored = [stage.every for stage in training.rounds.stages if stage.name == "evaluate"]
    assert scored == [training.aggregator.rounds_to_train] == [chosen.rounds]


def test_its_learning_rate_falls_to_the_plans_own(plan: Plan) -> None:
    plan = plan.changed({"warm_up.rounds": 5, "warm_up.lr": 0.16, "task_runner.settings.optimizer.lr": 0.01})
    check_plan(plan)
    optimizer = training_plan(plan).training.optimizer
    rates = [optimizer.lr * optimizer.decay**number for number in range(5)]
    assert rates == pytest.approx([0.16, 0.08, 0.04, 0.02, 0.01])
    assert plan.training.optimizer.decay == 1, "the federation itself does not slow down"


def test_its_learning_rate_does_not_rise(plan: Plan) -> None:
    with pytest.raises(PlanError, match=r"warm_up\.lr is 0\.001, but it falls to .*optimizer\.lr"):
        check_plan(plan.changed({"warm_up.lr": 0.001}))
    with pytest.raises(PlanError, match=r"warm_up\.lr must be .*number, not nan"):
        plan.changed({"warm_up.lr": float("nan")})


def test_methods_share_it_and_seeds_do_not(plan: Plan) -> None:
    methods = [_variant(plan, method_changes(name)) for name in ("ideal", "fedavg", "der", "der+fedagem")]
    first, *others = [training_plan(variant) for variant in methods]
    assert all(other == first for other in others)
    assert {other.digest for other in others} == {first.digest}
    assert training_plan(plan.changed(seed=5)) != first


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"seconds": 0, "rounds": 3}, r"warm_up\.seconds must be positive, not 0\."),
        ({"seconds": 60, "rounds": 0}, r"warm_up\.rounds must be at least 1, not 0\."),
    ],
)
def test_it_needs_time_and_rounds(plan: Plan, chosen: dict[str, int], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        plan.changed({"warm_up": chosen})


def test_it_is_a_drive(repository: Path) -> None:
    plan = Plan.load(repository / "plan" / "rotated_digits.yaml")
    with pytest.raises(PlanError, match="warm_up is for driving plans"):
        check_plan(plan.changed({"warm_up": {"seconds": 60, "rounds": 3}}))


def test_a_plan_that_names_its_initial_model_has_none(plan: Plan) -> None:
    given = plan.changed({"task_runner.settings.initial_model": "mine.safetensors"})
    assert given.pending_warm_up is None
    assert warm_up(given) is given


def test_the_run_begins_with_the_model_of_the_warm_up(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = []
    monkeypatch.setattr("fedagem.runs.preparation.run_jobs", lambda given, parallel: jobs.extend(given))
    warmed_up = warm_up(plan)
    [job] = jobs
    assert job.plan == job.requested == training_plan(plan)
    assert job.directory.parent == tmp_path / "runs"
    assert warmed_up.training.initial_model == str(job.directory / "save" / "last.safetensors")
    assert warmed_up.changed({"task_runner.settings.initial_model": None}) == plan


def test_a_warm_up_of_an_earlier_version_is_not_used(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    training = training_plan(plan)
    place = tmp_path / "runs" / f"{plan.name}-warm-up-{training.digest}"
    create_run(place, training)
    (place / "plan" / "requested.yaml").unlink()
    (place / "results.json").write_text(f'{{"rounds": {training.aggregator.rounds_to_train}}}')
    with pytest.raises(FedAGemError, match=r"-warm-up-.* was made by an older version"):
        warm_up(plan)
