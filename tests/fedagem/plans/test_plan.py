"""A plan: typed, frozen, compared as it is, and refused in one sentence if a section cannot work."""

import re
from typing import Any

import pydantic
import pytest
import yaml

from fedagem.errors import PlanError
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.federation import FederatedTask
from fedagem.plans.plan import Plan
from fedagem.plans.workload import DrivingWorkload, TaskWorkload
from fedagem.tasks.settings import StreamSettings


@pytest.fixture
def whole(digits) -> dict[str, Any]:
    """The complete YAML of a plan, to be damaged."""
    document: dict[str, Any] = yaml.safe_load(digits.to_yaml())
    return document


def refusal(make: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(PlanError) as refused:
        make(*arguments, **named)
    assert "\n" not in refused.value.message
    return refused.value.message


# What it is


def test_sections_are_typed(digits, demo):
    assert isinstance(digits.data, StreamSettings)
    assert isinstance(digits.workload, TaskWorkload)
    assert (digits.carla, digits.driving, digits.warm_up) == (None, None, None)
    assert isinstance(demo.data, DrivingSettings)
    assert isinstance(demo.workload, DrivingWorkload)
    assert demo.carla is not None
    assert demo.warm_up is not None
    for plan in (digits, demo):
        assert all(isinstance(task, FederatedTask) for task in plan.tasks.values())
        stages = [stage.name for stage in plan.rounds.stages]
        assert stages == ["baseline", "buffer_gradient", "train", "end_task", "evaluate"]


def test_nothing_in_it_can_be_changed(digits):
    with pytest.raises(AttributeError):
        digits.training = None
    with pytest.raises(pydantic.ValidationError):
        digits.training.optimizer.lr = 1.0


def test_the_name_is_of_the_file_and_of_no_consequence(digits, digits_path, tmp_path):
    (tmp_path / "mine.yaml").write_text(digits_path.read_text())
    mine = Plan.load(tmp_path / "mine.yaml")
    assert (digits.name, mine.name, digits.renamed("other").name) == ("rotated_digits", "mine", "other")
    assert digits == mine == digits.renamed("other")
    assert digits.digest == mine.digest


def test_a_run_is_called_after_plan_method_and_seed(digits):
    plan = digits.changed(seed=17)
    assert (plan.seed, plan.rounds.seed, plan.data.seed) == (17, 17, 17)
    assert plan.run_name == "rotated_digits-der+fedagem-seed17"
    alone = plan.changed({"task_runner.settings.fedagem": False})
    assert alone.run_name == "rotated_digits-der-seed17"
    assert (plan.label, alone.label) == ("der + Fed-A-GEM", "der")


def test_collaborators_have_names_that_sort_by_rank(digits):
    members = digits.changed({"data_loader.settings.clients": 12}).workload.collaborators
    assert list(members) == sorted(members)
    assert list(members.items())[:2] == [("client_01", "0"), ("client_02", "1")]
    assert len(members) == 12


def test_vehicles_are_collaborators(demo):
    assert demo.workload.collaborators == {"vehicle_1": "vehicle_1", "vehicle_2": "vehicle_2"}


def test_a_model_to_begin_with_is_not_warmed_up(demo):
    assert demo.pending_warm_up == demo.warm_up
    assert demo.changed({"task_runner.settings.initial_model": "mine.safetensors"}).pending_warm_up is None


# Changed, written and compared


def test_a_change_makes_another_plan(digits):
    before = digits.to_yaml()
    other = digits.changed({"data_loader.settings.tasks.count": 2}, ["task_runner.settings.method=agem"], 3, 10)
    assert digits.to_yaml() == before
    assert digits.training.method == "der"
    assert other != digits
    assert other.digest != digits.digest
    assert (other.data.tasks.count, other.data.rounds_per_task, other.aggregator.rounds_to_train) == (2, 5, 10)
    assert (other.training.method, other.seed) == ("agem", 3)


def test_what_follows_from_a_setting_follows_its_changes(digits):
    plan = digits.changed({"data_loader.settings.rounds_per_task": 3, "data_loader.settings.seed": 8})
    assert plan.aggregator.rounds_to_train == 15
    assert plan.rounds.stages[-1].every == 3
    assert plan.rounds.seed == 8


def test_changes_add_up(digits):
    two_steps = digits.changed(rounds=10).changed(seed=4).changed(assignments=["data_loader.settings.epochs=2"])
    assert two_steps == digits.changed(assignments=["data_loader.settings.epochs=2"], seed=4, rounds=10)


@pytest.mark.parametrize("section", ["carla", "driving", "warm_up", "compression_pipeline"])
def test_a_section_that_was_left_out_stays_out(demo, section):
    without = demo.changed({section: None})
    assert section not in yaml.safe_load(without.to_yaml())
    assert section not in yaml.safe_load(without.changed(seed=5).to_yaml())


DEFAULTS = {
    "aggregator.settings.weighting": "uniform",
    "aggregator.settings.snapshots": [],
    "collaborator.settings.retry_seconds": 600.0,
    "network.settings.cert_folder": "cert",
    "task_runner.settings.threads": 1,
    "task_runner.settings.optimizer.momentum": 0.0,
    "task_runner.settings.objective": {"template": "fedagem.learning.objective.Classification"},
    "data_loader.settings.partition.scope": "dataset",
    "assigner.settings.participation": {},
    "assigner.settings.seed": 0,
    "aggregator.settings.rounds_to_train": 20,
}


@pytest.mark.parametrize("path", DEFAULTS)
def test_a_default_makes_no_difference_whether_it_is_spelled_out_or_not(digits, path):
    spelled = digits.changed({path: DEFAULTS[path]})
    assert spelled == digits
    assert spelled.digest == digits.digest


def test_neither_do_defaults_of_a_drive(demo):
    spelled = demo.changed({"carla.timeout_seconds": demo.carla.timeout_seconds, "driving.snippets": "snippets"})
    assert spelled == demo
    assert spelled.digest == demo.digest


@pytest.mark.parametrize(
    "assignment",
    [
        "aggregator.settings.weighting=samples",
        "collaborator.settings.retry_seconds=6",
        "network.settings.agg_port=4711",
        "assigner.settings.participation.per_round=2",
        "tasks.train.kwargs.publishes=[]",
        "task_runner.settings.optimizer.lr=0.1",
        "data_loader.settings.seed=1",
        "network.template=openfl.federation.MyNetwork",
        "compression_pipeline.template=openfl.pipelines.NoCompressionPipeline",
        "compression_pipeline=null",
    ],
)
def test_every_other_setting_makes_a_difference(digits, assignment):
    other = digits.changed(assignments=[assignment])
    assert other != digits
    assert other.digest != digits.digest


@pytest.mark.parametrize("name", ["digits", "demo"])
def test_what_is_written_is_the_same_plan(name, request, tmp_path):
    plan = request.getfixturevalue(name).changed(rounds=10, seed=2)
    path = tmp_path / "plan.yaml"
    path.write_text(plan.to_yaml())
    for again in (Plan.of_run(path, plan.name), Plan.load(path)):
        assert again == plan
        assert again.digest == plan.digest
        assert again.to_yaml() == plan.to_yaml()


def test_what_openfl_adds_to_a_plan_makes_no_difference(demo, tmp_path):
    """`fx plan initialize` writes empty settings into every section."""
    document = yaml.safe_load(demo.to_yaml())
    for section in document.values():
        section.setdefault("settings", {})
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(document))
    assert Plan.of_run(path, demo.name) == demo


# Sections that cannot work


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("task_runner.settings.method=derr", "task_runner.settings.method is 'derr'; did you mean der"),
        ("task_runner.settings.method_settings.lamda=2", "task_runner.settings.method_settings has no setting 'lamda'"),
        ("task_runner.settings.optimizer.lr=fast", "task_runner.settings.optimizer.lr must be a number, not 'fast'."),
        ("task_runner.settings.optimizer.lr=-1", "task_runner.settings.optimizer.lr must be positive, not -1."),
        ("task_runner.settings.optimizer.momentum=-1", "task_runner.settings.optimizer.momentum must"),
        ("task_runner.settings.optimizer.weight_decay=-1", "task_runner.settings.optimizer.weight_decay must"),
        ("task_runner.settings.buffer.policy=fifo", "task_runner.settings.buffer.policy is 'fifo'; valid values:"),
        ("task_runner.settings.buffer.capacity=-1", "task_runner.settings.buffer.capacity must be at least 0, not -1"),
        ("task_runner.settings.buffer_gradient_samples=0", "task_runner.settings.buffer_gradient_samples must be at"),
        ("task_runner.settings.threads=0", "task_runner.settings.threads must be at least 1, not 0."),
        ("task_runner.settings.refinement.rate=2", "task_runner.settings.refinement.rate must be at most 1, not 2"),
        ("task_runner.settings.refinement.how=bend", "task_runner.settings.refinement.how is 'bend'"),
        ("data_loader.settings.clients=two", "data_loader.settings.clients must be a whole number, not 'two'."),
        ("data_loader.settings.seed=null", "data_loader.settings.seed must be a whole number, not None."),
        ("data_loader.settings.tasks=5", "data_loader.settings.tasks must be a mapping, not 5."),
        ("data_loader.settings.tasks.count=0", "data_loader.settings.tasks.count must be at least 1, not 0."),
        ("data_loader.settings.rounds_per_task=0", "data_loader.settings.rounds_per_task must be at least 1, not 0."),
        ("data_loader.settings.rounds_per_task=x", "data_loader.settings.rounds_per_task must be a whole number, not"),
        ("data_loader.settings.arrivals=5", "data_loader.settings.arrivals must be a mapping, not 5."),
        ("aggregator.settings.rounds_to_train=0", "aggregator.settings.rounds_to_train must be at least 1, not 0."),
        ("aggregator.settings.rounds_to_train=yes", "aggregator.settings.rounds_to_train must be a whole number, not"),
        ("aggregator.settings.weighting=size", "aggregator.settings.weighting is 'size'; "),
        ("aggregator.settings.poll_seconds=long", "aggregator.settings.poll_seconds must be a number, not 'long'."),
        ("aggregator.settings.use_delta_updates=true", "aggregator.settings.use_delta_updates must be false"),
        (
            "aggregator.settings={rounds: 20}",
            "aggregator.settings has no setting 'rounds'; did you mean robust or rounds_to_train",
        ),
        (
            "collaborator.settings.connect_seconds=-1",
            "collaborator.settings.connect_seconds must be at least 0, not -1",
        ),
        ("collaborator.settings={conect_seconds: 1}", "collaborator.settings has no setting 'conect_seconds'; did you"),
        ("aggregator.settings=null", "aggregator.settings must be a mapping, not None."),
        ("aggregator=7", "the plan has no section 'aggregator'."),
        ("aggregator=null", "the plan has no section 'aggregator'."),
        ("compression_pipeline=7", "compression_pipeline must be a mapping, not 7."),
        ("assigner.settings.stages=train", "assigner.settings.stages must be a list, not 'train'."),
        ("assigner.settings.stages=5", "assigner.settings.stages must be a list, not 5."),
        (
            "assigner.settings.stages=[{name: train, tasks: [train], every: 0}]",
            "assigner.settings.stages[0].every must be at least 1, not 0",
        ),
        (
            "assigner.settings.stages=[{name: train, tasks: [train], every: tusk}]",
            "assigner.settings.stages[0].every must be a whole number, not 'tusk'",
        ),
        (
            "assigner.settings.stages=[{name: train, tasks: []}]",
            "assigner.settings.stages[0].tasks must be a list of at least 1 value",
        ),
        ("assigner.settings.stages=[]", "assigner.settings.stages"),
        ("assigner.settings.stages=[{name: train}]", "assigner.settings.stages[0].tasks is missing"),
        ("assigner.settings.participation=5", "assigner.settings.participation must be a mapping, not 5."),
    ],
)
def test_a_section_that_cannot_work_is_refused(digits, assignment, sentence):
    assert refusal(digits.changed, assignments=[assignment]).startswith(sentence)


@pytest.mark.parametrize("assignment", ["data_loader.settings.rounds_per_task=x", "data_loader.settings.tasks=5"])
def test_rounds_do_not_hide_what_is_wrong_with_the_tasks(digits, assignment):
    path = assignment.partition("=")[0]
    assert refusal(digits.changed, assignments=[assignment], rounds=10).startswith(f"{path} must be ")


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("der", {"replay_batch": "x"}, "method_settings.replay_batch must be a whole number, not 'x'."),
        ("der", {"coefficient": [1]}, "method_settings.coefficient must be a number, not [1]."),
        ("agem", {"replay_batch": True}, "method_settings.replay_batch must be a whole number, not True."),
        ("fedavg", {"replay_batch": 8}, "method_settings has no setting 'replay_batch'; there are none."),
    ],
)
def test_settings_of_methods_must_have_their_types(digits, method, settings, sentence):
    changes = {"task_runner.settings.method": method, "task_runner.settings.method_settings": settings}
    assert refusal(digits.changed, changes).endswith(sentence)


def test_a_missing_or_unknown_section_is_refused(whole, written):
    network = whole.pop("network")
    assert refusal(Plan.of_run, written(whole), "mine") == "the plan has no section 'network'."
    whole["network"], whole["task_runer"] = network, {}
    unknown = "the plan has an unknown section 'task_runer'; did you mean task_runner or assigner or tasks?"
    assert refusal(Plan.of_run, written(whole), "mine") == unknown
    assert refusal(Plan.load, written(whole)) == unknown


def test_what_the_base_does_not_have_must_be_in_the_plan(digits_path, written):
    document = yaml.safe_load(digits_path.read_text())
    loader = document.pop("data_loader")
    assert refusal(Plan.load, written(document)) == "the plan has no section 'data_loader'."
    document["data_loader"] = loader
    del document["task_runner"]["settings"]["optimizer"]
    assert refusal(Plan.load, written(document)) == "task_runner.settings.optimizer is missing: set it in the plan."


def test_a_class_that_the_workspace_lacks_is_refused_by_name(digits):
    said = refusal(digits.changed, {"aggregator.template": "src.aggregator.StagedAgregator"})
    assert "did you mean src.aggregator.StagedAggregator" in said


@pytest.mark.parametrize(
    ("section", "change", "sentence"),
    [
        ("data_loader", {"template": 5}, "data_loader.template must be the dotted path of a class, not 5."),
        ("task_runner", {"template": "no.such"}, "but there is no package 'no' here."),
        ("network", {"settings": None}, "network.settings must be a mapping, not None."),
        ("tasks", {"train": 5}, "tasks.train must be a mapping with a function, not 5."),
        ("tasks", {"train": {}}, "tasks.train must be a mapping with a function, not {}."),
    ],
)
def test_a_written_section_that_cannot_work_is_refused(whole, written, section, change, sentence):
    whole[section] |= change
    assert refusal(Plan.of_run, written(whole), "mine").endswith(sentence)


@pytest.mark.parametrize("section", ["aggregator", "data_loader", "network"])
@pytest.mark.parametrize("part", ["template", "settings"])
def test_sections_need_a_class_and_its_settings(whole, written, section, part):
    del whole[section][part]
    needs = f"{section} needs a template, the class that does its work, and settings."
    assert refusal(Plan.of_run, written(whole), "mine") == needs


def test_a_misspelt_task_argument_is_refused(digits):
    said = refusal(digits.changed, {"tasks.train.kwargs": {"publish": []}})
    assert re.match(r"tasks\.train\.kwargs has no setting 'publish'; did you mean publishes", said)
