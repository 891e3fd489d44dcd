"""A plan that cannot give its method what it needs is refused in one sentence, before anything is computed."""

import pytest

from fedagem.errors import PlanError
from fedagem.learning.methods import METHODS
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan

METHOD = "task_runner.settings.method"
WITH_BOUNDARIES = sorted(name for name, method in METHODS.items() if method.needs_boundaries)
SEQUENTIAL = {"data_loader.settings.tasks.kind": "sequential"}
SURROGATE = {"data_loader.settings.surrogate": {"dataset": "digits"}}


@pytest.fixture
def digits(repository):
    return Plan.load(repository / "plan" / "rotated_digits.yaml")


@pytest.fixture
def carla(repository):
    return Plan.load(repository / "plan" / "carla_demo.yaml")


def refusal(plan):
    with pytest.raises(PlanError) as refused:
        check_plan(plan)
    assert "\n" not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_tasks_with_ends_are_enough(digits, name):
    check_plan(digits.changed({**SEQUENTIAL, **SURROGATE, METHOD: name}))


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_vehicles_have_no_tasks_that_end(carla, name):
    other = {METHOD: name, "task_runner.settings.method_settings": {}}
    assert refusal(carla.changed(other)) == (
        f"{METHOD} is {name}, which must be told where tasks end, but what vehicles see has no such ends."
    )


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_without_common_ends_of_tasks_there_is_nothing_to_be_told(digits, name):
    asynchronous = {**SEQUENTIAL, **SURROGATE, METHOD: name, "data_loader.settings.asynchronous_samples": 50}
    assert "every client reaches the end of a task at another time" in refusal(digits.changed(asynchronous))


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_the_end_of_a_task_needs_a_stage(digits, name):
    stages = [{"name": "buffer_gradient", "tasks": ["buffer_gradient"]}, {"name": "train", "tasks": ["train"]}]
    without = {**SEQUENTIAL, **SURROGATE, METHOD: name, "assigner.settings.stages": stages}
    assert "needs a stage at the end of each task" in refusal(digits.changed(without))


@pytest.mark.parametrize("name", ["icarl", "glfc", "cfed"])
@pytest.mark.parametrize("kind", ["rotated", "permuted"])
def test_methods_for_new_classes_refuse_new_domains(digits, name, kind):
    changes = {**SURROGATE, METHOD: name, "data_loader.settings.tasks.kind": kind}
    assert refusal(digits.changed(changes)) == (
        f"{METHOD} is {name}, which is not defined for data_loader.settings.tasks.kind {kind}: it is for sequential "
        "tasks."
    )


def test_cfed_needs_a_surrogate_data_set(digits):
    assert refusal(digits.changed({**SEQUENTIAL, METHOD: "cfed"})) == (
        f"{METHOD} is cfed, which learns from images without labels besides those of the tasks: name a data set in "
        "data_loader.settings.surrogate."
    )


@pytest.mark.parametrize("name", ["icarl", "glfc"])
@pytest.mark.parametrize(("setting", "value"), [("policy", "sliding_window"), ("offer", "once")])
def test_what_an_exemplar_method_would_ignore_is_refused(digits, name, setting, value):
    changes = {**SEQUENTIAL, METHOD: name, f"task_runner.settings.buffer.{setting}": value}
    assert "which chooses the samples of its buffer itself: leave" in refusal(digits.changed(changes))
