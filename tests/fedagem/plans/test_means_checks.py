"""Means and buffers that a plan cannot have are refused in one sentence, before anything starts."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.studies.study import load_study

ROBUST = "aggregator.settings.robust={kind: median}"


@pytest.fixture
def digits():
    return Plan.load(find_plan("rotated_digits"))


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        ([ROBUST, "aggregator.settings.weighting=samples"], "aggregator.settings.robust needs aggregator.settings.wei"),
        (
            [ROBUST, "aggregator.settings.buffer_weighting=seen"],
            "aggregator.settings.buffer_weighting is seen, but in a robust mean of g_ref all clients count alike",
        ),
        (
            ["aggregator.settings.robust={kind: medain}"],
            "aggregator.settings.robust.kind is 'medain'; did you mean",
        ),
        (
            ["aggregator.settings.robust={kind: trimmed_mean, trim: 0.5}"],
            "aggregator.settings.robust.trim must be below 0.5, not 0.5.",
        ),
        (
            ["aggregator.settings.robust={kind: median, g_ref: {kind: mean, trim: 2}}"],
            "aggregator.settings.robust.g_ref.trim must be below 0.5",
        ),
        (
            [ROBUST, "assigner.settings.participation.per_round=2"],
            "aggregator.settings.robust needs at least 3 clients in a round, but there are 2",
        ),
        (
            [ROBUST, "task_runner.settings.method=fedcurv"],
            "aggregator.settings.robust is for the model and g_ref, but the method exchanges 'fisher' too",
        ),
        (["task_runner.settings.buffer.by_client={client_9: 5}"], "by_client has 'client_9'; did you mean client_"),
        (
            ["task_runner.settings.buffer.by_client={client_1: -5}"],
            "task_runner.settings.buffer.by_client.client_1 must be at least 0, not -5.",
        ),
        (
            ["aggregator.settings.buffer_weighting=held"],
            "aggregator.settings.buffer_weighting is 'held'; valid values: buffer, seen, sqrt_buffer, sqrt_seen",
        ),
    ],
)
def test_what_cannot_be_is_refused(digits, assignments, sentence):
    with pytest.raises(PlanError) as refused:
        check_plan(digits.changed(assignments=assignments))
    assert sentence in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "assignments",
    [
        [ROBUST],
        [
            "aggregator.settings.robust={kind: median, g_ref: {kind: mean}}",
            "aggregator.settings.buffer_weighting=sqrt_seen",
        ],
        ["aggregator.settings.buffer_weighting=buffer", "task_runner.settings.buffer.by_client={client_1: 5}"],
    ],
)
def test_what_goes_together_is_accepted_and_survives_the_way_through_yaml(digits, tmp_path, assignments):
    plan = digits.changed(assignments=assignments)
    check_plan(plan)
    (tmp_path / "plan.yaml").write_text(plan.to_yaml())
    assert Plan.of_run(tmp_path / "plan.yaml", "plan") == plan
    assert plan.origin != digits.origin


def test_the_study_of_unequal_buffers_compares_equal_sums(repository):
    part = load_study(repository / "plan", "unequal-buffers").parts[0]
    rows = {row.label: row.set for row in part.rows}
    unequal = rows["Uniform"]["task_runner.settings.buffer.by_client"]
    assert sum(unequal.values()) == 10 * rows["Equal buffers"]["task_runner.settings.buffer.capacity"]
    weightings = [row.set.get("aggregator.settings.buffer_weighting") for row in part.rows[2:]]
    assert weightings == ["uniform", "buffer", "sqrt_buffer", "seen", "sqrt_seen"]
