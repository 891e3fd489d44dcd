"""A round's stages as the plan shows them."""

import pytest

from fedagem.errors import PlanError
from src.assigner import StagedAssigner
from tests.support.in_process_federation import STAGES, TASKS


def assigner(stages=STAGES, tasks=TASKS, **settings):
    return StagedAssigner(stages, tasks=tasks, authorized_cols=["a", "b", "c"], rounds_to_train=4, **settings)


def names(stages):
    return [stage.name for stage in stages]


def test_stages_of_a_round():
    subject = assigner()
    assert names(subject.stages_of(0)) == ["baseline", "buffer_gradient", "train"]
    assert names(subject.stages_of(1)) == ["buffer_gradient", "train", "evaluate"]
    assert names(subject.stages_of(2)) == ["buffer_gradient", "train"]


def test_what_a_task_publishes_comes_from_the_plan():
    assert [assigner().task(task).kwargs.publishes for task in ("train", "buffer_gradient", "evaluate")] == [
        ["model", "method"],
        ["method"],
        [],
    ]


def test_the_evaluation_group_has_the_stages_of_the_first_round_only():
    assert names(assigner(selected_task_group="evaluation").stages) == ["baseline"]


def test_drawn_participants_learn_and_everybody_measures():
    subject = assigner(participation={"per_round": 2}, seed=3)
    drawn = [subject.participants(r) for r in range(20)]
    assert {len(names) for names in drawn} == {2}
    assert {name for names in drawn for name in names} == {"a", "b", "c"}
    assert drawn == [assigner(participation={"per_round": 2}, seed=3).participants(r) for r in range(20)]
    [train] = [stage for stage in subject.stages if stage.name == "train"]
    [evaluate] = [stage for stage in subject.stages if stage.name == "evaluate"]
    assert subject.members(train, 1) == drawn[1]
    assert subject.members(evaluate, 1) == ["a", "b", "c"]


def test_a_task_ends_for_everybody_who_has_arrived():
    stages = [*STAGES[:3], {"name": "end_task", "tasks": ["end_task"], "every": 2}]
    tasks = {**TASKS, "end_task": {"function": "end_task", "kwargs": {"publishes": ["method"], "after_rounds": 1}}}
    arrivals = {"arrivals": {"first": 2, "then": 1}, "rounds_per_task": 2}
    subject = assigner(stages, tasks, participation={"per_round": 1, **arrivals})
    end = subject.stages[-1]
    assert len(subject.participants(1)) == len(subject.participants(3)) == 1
    assert subject.members(end, 1) == ["a", "b"]
    assert subject.members(end, 3) == ["a", "b", "c"]
    assert assigner(stages, tasks, participation={"per_round": 1}).members(end, 1) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ([{"name": "t", "tasks": ["trian"]}], r"assigner\.settings\.stages \(t\) names the task 'trian'; did you mean"),
        ([{"tasks": ["train"]}], r"assigner\.settings\.stages\[0\]\.name is missing"),
        ([{"name": "t"}], r"assigner\.settings\.stages\[0\]\.tasks is missing"),
        ([{"name": "t", "tasks": "train"}], r"stages\[0\]\.tasks must be a list, not 'train'"),
        ([{"name": "t", "tasks": []}], r"stages\[0\]\.tasks must be a list of at least 1 value"),
        ([{"name": "t", "tasks": ["train"], "every": 0}], r"every must be at least 1, not 0"),
        ([{"name": "t", "tasks": ["train"], "every": "two"}], r"every must be a whole number, not 'two'"),
        ([{"name": "t", "tasks": ["train"], "rounds": "last"}], r"rounds is 'last'; valid values: all, first"),
        ([{"name": "t", "tasks": ["train"], "evry": 2}], r"has no setting 'evry'; did you mean every"),
        (["train"], r"assigner\.settings\.stages\[0\] must be a mapping, not 'train'"),
        ([], r"assigner\.settings\.stages must be a list of at least 1 value"),
    ],
)
def test_stages_that_cannot_work_are_refused(stages, sentence):
    with pytest.raises(PlanError, match=sentence):
        assigner(stages)
