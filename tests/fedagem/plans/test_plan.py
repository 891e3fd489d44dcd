"""Plans: changed from the command line, and refused before anything starts."""

import copy
from pathlib import Path

import pytest

from fedagem.cli.options import RunRequest
from fedagem.errors import PlanError
from fedagem.plans.plan import change_plan, check_plan, collaborators, load_plan, run_name, set_rounds, set_seed


@pytest.fixture(scope="session")
def digits_path(repository):
    return repository / "plan" / "rotated_digits.yaml"


@pytest.fixture
def plan(digits_path):
    return load_plan(digits_path)


def refusal(plan):
    with pytest.raises(PlanError) as refused:
        check_plan(plan)
    assert "\n" not in refused.value.message
    return refused.value.message


def test_every_plan_of_the_repository_is_good(repository):
    plans = sorted((repository / "plan").glob("*.yaml"))
    checked = [path for path in plans if "aggregator" in (load_plan(path) if path.name != "data.yaml" else {})]
    assert len(checked) >= 3
    for path in checked:
        check_plan(load_plan(path))


# --set


def test_values_are_yaml(plan):
    change_plan(
        plan,
        [
            "task_runner.settings.optimizer.lr=0.5",
            "task_runner.settings.fedagem=false",
            "task_runner.settings.method=agem",
            "data_loader.settings.tasks={kind: permuted, count: 5}",
            "task_runner.settings.refinement.rate=0.25",
            "task_runner.settings.method_settings.replay_batch=8",
            "data_loader.settings.root=a=b",
        ],
    )
    runner, loader = plan["task_runner"]["settings"], plan["data_loader"]["settings"]
    assert runner["optimizer"] == {"lr": 0.5}
    assert runner["fedagem"] is False
    assert runner["method"] == "agem"
    assert runner["refinement"] == {"rate": 0.25}
    assert runner["method_settings"] == {"replay_batch": 8}
    assert loader["tasks"] == {"kind": "permuted", "count": 5}
    assert loader["root"] == "a=b"
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
def test_an_assignment_that_cannot_work_names_the_nearest(plan, assignment, words):
    before = copy.deepcopy(plan)
    with pytest.raises(PlanError) as refused:
        change_plan(plan, [assignment])
    for word in words:
        assert word in refused.value.message
    assert "\n" not in refused.value.message
    assert plan == before


def test_a_path_through_a_value_is_refused(plan):
    with pytest.raises(PlanError, match=r"task_runner\.settings\.buffer is 5"):
        change_plan(plan, ["task_runner.settings.buffer=5", "task_runner.settings.buffer.capacity=3"])


# Checks


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("task_runner.settings.method=derr", "task_runner.settings.method is 'derr'; did you mean der?"),
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
        ("aggregator.settings.rounds_to_train=0", "aggregator.settings.rounds_to_train must be at least 1, not 0."),
        ("aggregator.settings.rounds_to_train=yes", "aggregator.settings.rounds_to_train must be a whole number, not"),
        ("aggregator.settings.weighting=size", "aggregator.settings.weighting is 'size'; "),
        ("aggregator.settings.poll_seconds=long", "aggregator.settings.poll_seconds must be a number, not 'long'."),
        ("aggregator.settings.use_delta_updates=true", "aggregator.settings.use_delta_updates must be false"),
        (
            "aggregator.settings={rounds: 20}",
            "aggregator.settings has no setting 'rounds'; did you mean rounds_to_train",
        ),
        (
            "collaborator.settings.connect_seconds=-1",
            "settings.connect_seconds must be at least 0, not -1",
        ),
        ("collaborator.settings={conect_seconds: 1}", "collaborator.settings has no setting 'conect_seconds'; did you"),
        (
            "aggregator.settings.rounds_to_train=21",
            "aggregator.settings.rounds_to_train is 21, but 5 tasks of 4 rounds",
        ),
        ("data_loader.settings.rounds_per_task=3", "aggregator.settings.rounds_to_train is 20, but 5 tasks of 3 round"),
        ("aggregator.settings=null", "aggregator.settings must be a mapping, not None."),
        ("aggregator=7", "the plan has no section 'aggregator'."),
        ("compression_pipeline=7", "compression_pipeline must be a mapping, not 7."),
        ("assigner.settings.stages=train", "assigner.settings.stages must be a list, not 'train'."),
        (
            "assigner.settings.stages=[{name: train, tasks: [train], every: 0}]",
            "assigner.settings.stages[0].every must be at least 1, not 0",
        ),
        (
            "assigner.settings.stages=[{name: train, tasks: []}]",
            "stages[0].tasks must be a list of at least 1 values",
        ),
        ("assigner.settings.stages=[]", "assigner.settings.stages"),
        ("assigner.settings.stages=[{name: train}]", "assigner.settings.stages[0].tasks is missing"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(plan, assignment, sentence):
    change_plan(plan, [assignment])
    assert refusal(plan).startswith(sentence)


def test_a_missing_or_unknown_section_is_refused(plan):
    network = plan.pop("network")
    assert refusal(plan) == "the plan has no section 'network'."
    plan["network"], plan["task_runer"] = network, {}
    assert (
        refusal(plan) == "the plan has an unknown section 'task_runer'; did you mean task_runner or assigner or tasks?"
    )


# Files


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("a: [1", "is not valid YAML"), ("- 1", "must be a mapping of sections, not list"), ("", "not NoneType")],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, content, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(PlanError, match=sentence) as refused:
        load_plan(path)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(PlanError, match="cannot be read"):
        load_plan(tmp_path / name)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "picture.yaml"
    path.write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(PlanError, match="not valid YAML"):
        load_plan(path)


# --rounds, --seed and what a run is called


def test_rounds_keep_the_tasks_and_the_task_ends(plan):
    set_rounds(plan, 10)
    assert plan["aggregator"]["settings"]["rounds_to_train"] == 10
    assert plan["data_loader"]["settings"]["rounds_per_task"] == 2
    every = {stage["name"]: stage.get("every") for stage in plan["assigner"]["settings"]["stages"]}
    assert every == {"baseline": None, "buffer_gradient": None, "train": None, "evaluate": 2}
    check_plan(plan)


@pytest.mark.parametrize("rounds", [3, 7, 1])
def test_rounds_that_tasks_cannot_share_are_refused(plan, rounds):
    with pytest.raises(PlanError, match=f"--rounds {rounds} cannot be shared evenly by 5 tasks: use a multiple of 5"):
        set_rounds(plan, rounds)


def request(path, out, **changes):
    options = {"rounds": None, "seed": None, "assignments": (), "out": out, "resume": False}
    return RunRequest(plan_path=path, **{**options, **changes})


def test_rounds_settle_what_set_has_unsettled(digits_path, tmp_path):
    """Fewer tasks make another number of rounds; --rounds says which."""
    tasks = ("data_loader.settings.tasks.count=2",)
    with pytest.raises(PlanError, match="make them agree, or use --rounds"):
        request(digits_path, tmp_path / "a", assignments=tasks).open_run()
    _, plan = request(digits_path, tmp_path / "b", assignments=tasks, rounds=4).open_run()
    assert plan["data_loader"]["settings"]["rounds_per_task"] == 2
    assert plan["aggregator"]["settings"]["rounds_to_train"] == 4


def test_a_refused_plan_leaves_no_folder(digits_path, tmp_path):
    with pytest.raises(PlanError):
        request(digits_path, tmp_path / "a", assignments=("task_runner.settings.method=derr",)).open_run()
    assert not (tmp_path / "a").exists()


def test_the_seed_is_one(plan):
    set_seed(plan, 17)
    assert plan["data_loader"]["settings"]["seed"] == 17
    assert run_name(plan, Path("a/rotated_digits.yaml")) == "rotated_digits-der+fedagem-seed17"
    plan["task_runner"]["settings"]["fedagem"] = False
    assert run_name(plan, Path("rotated_digits.yaml")) == "rotated_digits-der-seed17"


def test_collaborators_have_names_that_sort_by_rank(plan):
    plan["data_loader"]["settings"]["clients"] = 12
    members = collaborators(plan)
    assert list(members) == sorted(members)
    assert list(members.items())[:2] == [("client_01", "0"), ("client_02", "1")]
    assert len(members) == 12


def test_a_class_that_the_workspace_lacks_is_refused_by_name(plan):
    plan["aggregator"]["template"] = "src.aggregator.StagedAgregator"
    assert "did you mean src.aggregator.StagedAggregator" in refusal(plan)


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
def test_sections_that_cannot_work_are_refused(plan, section, change, sentence):
    plan[section] |= change
    assert refusal(plan).endswith(sentence)


@pytest.mark.parametrize("section", ["aggregator", "data_loader", "network"])
@pytest.mark.parametrize("part", ["template", "settings"])
def test_sections_need_a_class_and_its_settings(plan, section, part):
    del plan[section][part]
    assert refusal(plan) == f"{section} needs a template, the class that does its work, and settings."


def test_an_evaluation_that_misses_the_ends_of_tasks_is_refused(plan):
    plan["assigner"]["settings"]["stages"][-1]["every"] = 3
    assert "(evaluate) runs every 3 rounds, which misses ends of tasks of 4 rounds" in refusal(plan)
    plan["assigner"]["settings"]["stages"][-1]["every"] = 2
    check_plan(plan)


def test_a_stage_whose_task_is_missing_is_refused(plan):
    plan["tasks"]["trian"] = plan["tasks"].pop("train")
    assert refusal(plan) == "assigner.settings.stages (train) names the task 'train'; did you mean trian?"


def test_sections_of_driving_plans_can_be_changed_and_left_out(repository):
    plan = load_plan(repository / "plan" / "carla_demo.yaml")
    change_plan(plan, ["carla.ignore_lights=50", "carla.timeout_seconds=3", "driving.snippets=drives", "warm_up=null"])
    assert plan["carla"]["ignore_lights"] == 50
    assert plan["carla"]["timeout_seconds"] == 3
    assert plan["driving"]["snippets"] == "drives"
    assert "warm_up" not in plan
    with pytest.raises(PlanError, match=r"the plan has no 'driving.evaluation_second'; did you mean"):
        change_plan(plan, ["driving.evaluation_second=3"])


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("der", {"replay_batch": "x"}, "method_settings.replay_batch must be a whole number, not 'x'."),
        ("der", {"coefficient": [1]}, "method_settings.coefficient must be a number, not [1]."),
        ("fedavg", {"replay_batch": True}, "method_settings.replay_batch must be a whole number, not True."),
    ],
)
def test_settings_of_methods_must_have_their_types(plan, method, settings, sentence):
    plan["task_runner"]["settings"] |= {"method": method, "method_settings": settings}
    assert refusal(plan).endswith(sentence)
