"""The YAML of plans: merged with what all share, and changed from the command line."""

from typing import Any

import pytest
import yaml

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.editing import base_document, change, complete, known_paths, set_rounds, set_seed, with_base
from fedagem.plans.plan import Plan
from fedagem.tasks.settings import StreamSettings


@pytest.fixture
def own(digits_path) -> dict[str, Any]:
    """What the file of the plan says itself."""
    document: dict[str, Any] = yaml.safe_load(digits_path.read_text())
    return document


# Files


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("a: [1", "is not valid YAML"), ("- 1", "must be a mapping of sections, not list"), ("", "not NoneType")],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, content, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(PlanError, match=sentence) as refused:
        Plan.load(path)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(PlanError, match="cannot be read"):
        Plan.load(tmp_path / name)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "picture.yaml"
    path.write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(PlanError, match="not valid YAML"):
        Plan.load(path)


# The base


def test_mappings_are_merged_at_every_depth_and_everything_else_is_replaced():
    base = base_document()
    stages = [{"name": "train", "tasks": ["train"]}]
    merged = with_base({"network": {"settings": {"agg_port": 5}}, "assigner": {"settings": {"stages": stages}}})
    assert merged["network"] == {
        "template": base["network"]["template"],
        "settings": {**base["network"]["settings"], "agg_port": 5},
    }
    assert merged["assigner"] == {"template": base["assigner"]["template"], "settings": {"stages": stages}}
    assert merged["tasks"] == base["tasks"]


def test_merging_changes_neither_side(own):
    before = yaml.safe_dump(own)
    merged = with_base(own)
    merged["data_loader"]["settings"]["tasks"]["count"] = 99
    merged["network"]["settings"]["agg_port"] = 99
    assert yaml.safe_dump(own) == before
    assert base_document()["network"]["settings"]["agg_port"] == "auto"


def test_a_plan_that_is_merged_already_stays_as_it_is(own):
    assert with_base(with_base(own)) == with_base(own)


def test_the_defaults_of_openfl_are_refused_by_name(own, written):
    own["network"] = {"defaults": "plan/defaults/network.yaml"}
    with pytest.raises(PlanError, match=r"^network\.defaults is OpenFL's way to share settings, .*: remove it; ") as no:
        Plan.load(written(own))
    assert "plan/base.yaml" in no.value.message
    assert "\n" not in no.value.message


# What follows from other settings


def every(document: dict[str, Any]) -> dict[str, Any]:
    return {stage["name"]: stage.get("every") for stage in complete(document)["assigner"]["settings"]["stages"]}


def test_every_task_is_the_last_round_of_each_task(own):
    document = with_base(own)
    assert every(document) == {"baseline": None, "buffer_gradient": None, "train": None, "end_task": 4, "evaluate": 4}
    assert document["assigner"]["settings"]["stages"][-1]["every"] == "task", "it follows later changes"


def test_without_tasks_every_task_is_every_round(repository):
    document = with_base(yaml.safe_load((repository / "plan" / "carla_demo.yaml").read_text()))
    assert every(document)["evaluate"] == 1


def test_rounds_seed_and_arrivals_are_those_of_the_data(own):
    own["data_loader"]["settings"] |= {"seed": 3, "arrivals": {"first": 2, "then": 1}}
    whole = complete(with_base(own))
    assert whole["aggregator"]["settings"]["rounds_to_train"] == 20
    assert whole["assigner"]["settings"]["seed"] == 3
    assert whole["assigner"]["settings"]["participation"] == {
        "arrivals": {"first": 2, "then": 1},
        "rounds_per_task": 4,
    }


def test_what_the_plan_says_itself_is_kept(own):
    own |= {"aggregator": {"settings": {"rounds_to_train": 21}}, "assigner": {"settings": {"seed": 9}}}
    whole = complete(with_base(own))
    assert whole["aggregator"]["settings"]["rounds_to_train"] == 21
    assert whole["assigner"]["settings"]["seed"] == 9


# --set


def test_values_are_yaml(digits):
    plan = digits.changed(
        assignments=[
            "task_runner.settings.optimizer.lr=0.5",
            "task_runner.settings.fedagem=false",
            "task_runner.settings.method=agem",
            "data_loader.settings.tasks={kind: permuted, count: 5}",
            "task_runner.settings.refinement.rate=0.25",
            "task_runner.settings.method_settings.replay_batch=8",
            "data_loader.settings.root=a=b",
        ],
    )
    runner, loader = plan.training, plan.data
    assert isinstance(loader, StreamSettings)
    assert runner.optimizer.lr == 0.5
    assert runner.fedagem is False
    assert runner.method == "agem"
    assert runner.refinement.rate == 0.25
    assert runner.method_settings == {"replay_batch": 8}
    assert loader.tasks.model_dump(exclude_defaults=True) == {"kind": "permuted", "count": 5}
    assert loader.root == "a=b"
    check_plan(plan)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("task_runner.settings.optimiser.lr=1", ["no 'task_runner.settings.optimiser.lr'", "optimizer.lr"]),
        ("data_loader.settings.client=3", ["no 'data_loader.settings.client'", "data_loader.settings.clients"]),
        ("nonsense=1", ["no 'nonsense'"]),
        ("task_runner.settings.method", ["--set takes path.in.plan=value", "'task_runner.settings.method'"]),
        ("=1", ["no ''"]),
        ("task_runner.settings.method=[", ["task_runner.settings.method", "not valid YAML"]),
        ("aggregator.settings.rounds_to_train.x=1", ["no 'aggregator.settings.rounds_to_train.x'"]),
    ],
)
def test_an_assignment_that_cannot_work_names_the_nearest(own, assignment, words):
    document = with_base(own)
    with pytest.raises(PlanError) as refused:
        change(document, [assignment])
    for word in words:
        assert word in refused.value.message
    assert "\n" not in refused.value.message
    assert document == with_base(own)


def test_a_path_through_a_value_is_refused(digits):
    with pytest.raises(PlanError, match=r"task_runner\.settings\.buffer is 5"):
        digits.changed(assignments=["task_runner.settings.buffer=5", "task_runner.settings.buffer.capacity=3"])


def test_sections_of_driving_plans_can_be_changed_and_left_out(demo):
    plan = demo.changed(
        assignments=["carla.ignore_lights=50", "carla.timeout_seconds=3", "driving.snippets=drives", "warm_up=null"]
    )
    assert plan.carla.ignore_lights == 50
    assert plan.carla.timeout_seconds == 3
    assert plan.driving.snippets == "drives"
    assert plan.warm_up is None
    with pytest.raises(PlanError, match=r"the plan has no 'driving.evaluation_second'; did you mean"):
        demo.changed(assignments=["driving.evaluation_second=3"])


def test_a_section_can_be_added(repository, demo):
    plan = Plan.load(repository / "plan" / "carla_snippets.yaml").changed(assignments=["warm_up=null"])
    assert plan.changed(assignments=["warm_up={seconds: 480, rounds: 16, lr: 0.02}"]).warm_up == demo.warm_up


def test_settings_that_the_plan_leaves_at_their_defaults_are_known(own):
    known = known_paths(with_base(own))
    assert {"task_runner.settings.threads", "aggregator.settings.weighting", "carla.vehicles"} <= set(known)
    assert not any(path.startswith("data_loader.settings.vehicles") for path in known), "a benchmark has none"


# --rounds and --seed


def test_rounds_keep_the_tasks_and_the_task_ends(own):
    document = with_base(own)
    set_rounds(document, 10)
    assert document["aggregator"]["settings"]["rounds_to_train"] == 10
    assert document["data_loader"]["settings"]["rounds_per_task"] == 2
    assert every(document) == {"baseline": None, "buffer_gradient": None, "train": None, "end_task": 2, "evaluate": 2}


@pytest.mark.parametrize("rounds", [3, 7, 1])
def test_rounds_that_tasks_cannot_share_are_refused(digits, rounds):
    with pytest.raises(PlanError, match=f"--rounds {rounds} cannot be shared evenly by 5 tasks: use a multiple of 5"):
        digits.changed(rounds=rounds)


def test_rounds_of_a_drive_are_rounds(demo):
    assert demo.changed(rounds=7).aggregator.rounds_to_train == 7


def test_the_seed_is_one(own):
    document = with_base(own)
    document["assigner"]["settings"]["seed"] = 4
    set_seed(document, 17)
    whole = complete(document)
    assert whole["data_loader"]["settings"]["seed"] == 17
    assert whole["assigner"]["settings"]["seed"] == 17
