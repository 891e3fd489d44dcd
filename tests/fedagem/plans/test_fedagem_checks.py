"""A plan labelled Fed-A-GEM that would train without the global buffer gradient is refused."""

from typing import Any

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan

GRADIENT = {"name": "buffer_gradient", "tasks": ["buffer_gradient"]}
TRAIN = {"name": "train", "tasks": ["train"]}
STAGES = "assigner.settings.stages"
NO_STAGE = (
    "task_runner.settings.fedagem is true, but assigner.settings.stages has no stage before 'train' that publishes "
    "buffer gradients in every round that trains: add one, see plan/base.yaml, or set fedagem to false."
)


@pytest.fixture
def plan(repository):
    return Plan.load(repository / "plan" / "rotated_digits.yaml")


def refusal(plan):
    with pytest.raises(PlanError) as refused:
        check_plan(plan)
    assert "\n" not in refused.value.message
    return refused.value.message


STAGES_WITHOUT_IT = {
    "no stage": [TRAIN],
    "after the training": [TRAIN, GRADIENT],
    "in the same stage": [{"name": "train", "tasks": ["buffer_gradient", "train"]}],
    "in the first round only": [{**GRADIENT, "rounds": "first"}, TRAIN],
    "in every other round": [{**GRADIENT, "every": 2}, TRAIN],
}


@pytest.mark.parametrize("stages", STAGES_WITHOUT_IT.values(), ids=STAGES_WITHOUT_IT)
def test_fedagem_needs_a_stage_that_publishes_buffer_gradients(plan, stages):
    assert refusal(plan.changed({STAGES: stages})) == NO_STAGE


def test_a_task_that_publishes_nothing_is_no_such_stage(plan):
    assert refusal(plan.changed({"tasks.buffer_gradient.kwargs.publishes": []})) == NO_STAGE


def test_a_stage_after_one_training_is_too_late_for_it(plan):
    stages = [{"name": "first_training", "tasks": ["train"]}, GRADIENT, TRAIN]
    assert "no stage before 'first_training'" in refusal(plan.changed({STAGES: stages}))


@pytest.mark.parametrize("arguments", [{"publishes": ["model"], "wants": []}, {"publishes": ["model"]}])
def test_fedagem_needs_training_that_wants_what_the_method_exchanges(plan, arguments):
    changed = plan.changed({"tasks.train.kwargs": arguments})
    assert refusal(changed) == (
        "task_runner.settings.fedagem is true, but tasks.train.kwargs.wants has no method: add it, or set fedagem to "
        "false."
    )


@pytest.mark.parametrize(
    "changes",
    [
        {STAGES: [TRAIN]},
        {STAGES: [TRAIN, GRADIENT]},
        {"tasks.train.kwargs.wants": []},
        {"tasks.buffer_gradient.kwargs.publishes": []},
    ],
)
def test_without_fedagem_nothing_of_it_is_needed(plan, changes):
    check_plan(plan.changed({"task_runner.settings.fedagem": False, **changes}))


def test_more_often_than_needed_is_fine(plan):
    stages = [{**GRADIENT, "every": 2}, {**TRAIN, "every": 4}]
    check_plan(plan.changed({STAGES: stages}, rounds=4 * plan.data.tasks.count))


def test_a_task_of_no_stage_may_want_nothing(plan):
    stages = [{"name": "buffer_gradient", "tasks": ["buffer_gradient"]}]
    check_plan(plan.changed({STAGES: stages, "tasks.train.kwargs.wants": []}))


def test_another_task_that_publishes_for_the_method_is_no_such_stage(plan):
    assert refusal(plan.changed({"tasks.buffer_gradient.function": "end_task"})) == NO_STAGE


@pytest.mark.parametrize(
    ("path", "word"), [("tasks.buffer_gradient.kwargs.publishes", "publishes"), ("tasks.train.kwargs.wants", "wants")]
)
def test_the_old_name_of_what_a_method_exchanges_is_refused_with_the_new_one(plan, path, word):
    with pytest.raises(PlanError, match=rf"kwargs\.{word} names g_ref, .*: write method instead\.$"):
        plan.changed({path: ["g_ref"]})


def test_tasks_end_with_their_last_round(plan):
    end: dict[str, Any] = {"name": "end_task", "tasks": ["end_task"], "every": 1}
    rounds = 2 * plan.data.tasks.count
    sentence = "(end_task) ends tasks every 1 rounds, but tasks have 2"
    assert sentence in refusal(plan.changed({STAGES: [GRADIENT, TRAIN, end]}, rounds=rounds))
    check_plan(plan.changed({STAGES: [GRADIENT, TRAIN, {**end, "every": "task"}]}, rounds=rounds))
