"""A plan labelled Fed-A-GEM that would train without the global buffer gradient is refused."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan

GRADIENT = {"name": "buffer_gradient", "tasks": ["buffer_gradient"]}
TRAIN = {"name": "train", "tasks": ["train"]}
STAGES = "assigner.settings.stages"
NO_STAGE = (
    "task_runner.settings.fedagem is true, but assigner.settings.stages has no stage before 'train' that publishes "
    "g_ref in every round that trains: add one, see plan/base.yaml, or set fedagem to false."
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
def test_fedagem_needs_a_stage_that_publishes_g_ref(plan, stages):
    assert refusal(plan.changed({STAGES: stages})) == NO_STAGE


def test_a_task_that_publishes_nothing_is_no_such_stage(plan):
    assert refusal(plan.changed({"tasks.buffer_gradient.kwargs.publishes": []})) == NO_STAGE


def test_a_stage_after_one_training_is_too_late_for_it(plan):
    stages = [{"name": "first_training", "tasks": ["train"]}, GRADIENT, TRAIN]
    assert "no stage before 'first_training'" in refusal(plan.changed({STAGES: stages}))


@pytest.mark.parametrize("arguments", [{"publishes": ["model"], "wants": []}, {"publishes": ["model"]}])
def test_fedagem_needs_training_that_wants_g_ref(plan, arguments):
    changed = plan.changed({"tasks.train.kwargs": arguments})
    assert refusal(changed) == (
        "task_runner.settings.fedagem is true, but tasks.train.kwargs.wants has no g_ref: add it, or set fedagem to "
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
